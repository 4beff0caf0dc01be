"""A GGUF file inside a folder, without any other file beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import yaml

from tests.torch_runtime.engines import collect, open_engine
from trtspec.building import build_engines
from trtspec.errors import CheckpointError
from trtspec.spec import load_spec
from trtspec.torch_runtime.request import GenerationRequest

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "post_attention_layernorm": "ffn_norm",
    "input_layernorm": "attn_norm",
    "model.layers": "blk",
}


def write_gguf(path: Path, checkpoint: Path) -> None:
    """The tiny Llama in `checkpoint` as a GGUF with a byte-level BPE tokenizer."""
    from safetensors.numpy import load_file

    config = json.loads((checkpoint / "config.json").read_text())
    tokenizer = json.loads((checkpoint / "tokenizer.json").read_text())["model"]
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    tokens = sorted(tokenizer["vocab"], key=lambda token: int(tokenizer["vocab"][token]))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if index < 3 else 1 for index in range(len(tokens))])
    writer.add_token_merges([" ".join(pair) if isinstance(pair, list) else pair for pair in tokenizer["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    for name, value in load_file(checkpoint / "model.safetensors").items():
        writer.add_tensor(_renamed(name), _permuted(name, value, config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _renamed(name: str) -> str:
    for ours, theirs in _NAMES.items():
        name = name.replace(ours, theirs)
    return name


def _permuted(name: str, value: np.ndarray[Any, Any], config: dict[str, Any]) -> np.ndarray[Any, Any]:
    """llama.cpp keeps the rotary pairs of query and key side by side."""
    kinds = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}
    kind = next((config[key] for part, key in kinds.items() if part in name), None)
    if kind is None:
        return value
    rows, columns = value.shape
    return value.reshape(kind, 2, rows // kind // 2, columns).swapaxes(1, 2).reshape(rows, columns)


@pytest.fixture
def spec_path(tmp_path: Path) -> Path:
    """A spec whose target is a folder with nothing but a GGUF, and whose draft is the checkpoint it was made from."""
    from tests.builders import tiny_checkpoint

    tiny_checkpoint(tmp_path / "plain", hidden=64, heads=4, kv_heads=2)
    (tmp_path / "gguf").mkdir()
    write_gguf(tmp_path / "gguf" / "tiny.gguf", tmp_path / "plain")
    path = tmp_path / "trtspec.yaml"
    path.write_text(
        yaml.safe_dump({"name": "tiny", "target": {"checkpoint": "gguf"}, "draft": {"checkpoint": "plain"}})
    )
    return path


def test_a_gguf_engine_answers_like_the_checkpoint_it_was_made_from(spec_path: Path) -> None:
    from tokenizers import Tokenizer

    spec_file = load_spec(spec_path)
    target, draft = build_engines(spec_file, ["target", "draft"])
    network = json.loads((target.path / "hf" / "config.json").read_text())
    assert "quantization_config" not in network
    assert network["architectures"] == ["LlamaForCausalLM"]
    answers = []
    for built in (target, draft):
        engine = open_engine(built.path)
        answers.append(collect(engine, GenerationRequest(tuple(range(5, 30)), 12)).tokens)
        engine.close()
    assert answers[0] == answers[1]
    texts = [
        Tokenizer.from_file(str(built.path / "tokenizer.json")).encode("hello you").ids for built in (target, draft)
    ]
    assert texts[0] == texts[1]
    assert build_engines(spec_file, ["target"])[0].cached


def test_a_cut_gguf_is_named(spec_path: Path) -> None:
    path = spec_path.parent / "gguf" / "tiny.gguf"
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(CheckpointError, match=r"tiny\.gguf"):
        build_engines(load_spec(spec_path), ["target"])
