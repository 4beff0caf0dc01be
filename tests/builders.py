"""Builders of tiny checkpoints, tokenizers and specs: real formats, a few kilobytes, made in milliseconds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from trtspec.spec import SpecFile, load_spec

__all__ = ["llama_tensors", "tiny_checkpoint", "tiny_tokenizer_files", "toy_spec"]

END_TOKEN = "<|im_end|>"
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", END_TOKEN)
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_CORPUS = (
    "the quick brown fox jumps over the lazy dog and the cat sat on the mat",
    "speculative decoding drafts tokens with a small model and verifies them with a large one",
    "def add(a, b):\n    return a + b\n\nprint(add(1, 2))",
    "hello world, how are you today? I am fine, thank you very much.",
)


def tiny_tokenizer_files(folder: Path, extra_tokens: Sequence[str] = ()) -> int:
    """Write tokenizer.json and tokenizer_config.json (byte-level BPE); return the number of ids."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=[AddedToken(token, special=True) for token in SPECIAL_TOKENS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    tokenizer.add_tokens(list(extra_tokens))
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|endoftext|>",
        "eos_token": END_TOKEN,
        "pad_token": END_TOKEN,
        "chat_template": CHAT_TEMPLATE,
        "add_bos_token": False,
        "model_max_length": 2048,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return int(tokenizer.get_vocab_size(with_added_tokens=True))


def llama_tensors(config: dict[str, Any], seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Random weights of a LlamaForCausalLM, peaked enough that greedy choices are no near-ties."""
    rng = np.random.default_rng(seed)
    hidden, inner, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    head_dim = hidden // config["num_attention_heads"]
    kv_rows = config["num_key_value_heads"] * head_dim

    def matrix(rows: int, columns: int) -> np.ndarray[Any, Any]:
        values: np.ndarray[Any, Any] = rng.standard_normal((rows, columns)) * (2.0 / np.sqrt(columns))
        return values.astype(np.float32)

    tensors = {"model.embed_tokens.weight": matrix(config["vocab_size"], hidden)}
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        for name, rows, columns in (
            ("self_attn.q_proj", hidden, hidden),
            ("self_attn.k_proj", kv_rows, hidden),
            ("self_attn.v_proj", kv_rows, hidden),
            ("self_attn.o_proj", hidden, hidden),
            ("mlp.gate_proj", inner, hidden),
            ("mlp.up_proj", inner, hidden),
            ("mlp.down_proj", hidden, inner),
        ):
            # later layers change less, so that a model without them is a usable draft
            scale = 0.35**layer if name in ("self_attn.o_proj", "mlp.down_proj") else 1.0
            tensors[f"{prefix}{name}.weight"] = matrix(rows, columns) * np.float32(scale)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}{norm}.weight"] = np.ones(hidden, np.float32)
    tensors["model.norm.weight"] = np.ones(hidden, np.float32)
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = matrix(config["vocab_size"], hidden)
    return tensors


def tiny_checkpoint(
    folder: Path,
    *,
    hidden: int = 32,
    layers: int = 2,
    heads: int = 2,
    kv_heads: int = 1,
    vocab_size: int | None = None,
    seed: int = 0,
    tie: bool = True,
    shards: int = 1,
    dtype: str = "float32",
    max_position_embeddings: int = 512,
    extra_tokens: Sequence[str] = (),
) -> Path:
    """Write a loadable Hugging Face folder of a tiny Llama with a byte-level tokenizer; return `folder`."""
    ids = tiny_tokenizer_files(folder, extra_tokens)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": hidden * 2,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab_size or ids,
        "max_position_embeddings": max_position_embeddings,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": tie,
        "torch_dtype": dtype,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "pad_token_id": 2,
        "attention_bias": False,
        "mlp_bias": False,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2], "bos_token_id": 0}))
    tensors = llama_tensors(config, seed)
    if dtype == "float16":
        tensors = {name: value.astype(np.float16) for name, value in tensors.items()}
    _save(folder, tensors, shards)
    return folder


def _save(folder: Path, tensors: dict[str, np.ndarray[Any, Any]], shards: int) -> None:
    if shards == 1:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return
    names = sorted(tensors)
    weight_map: dict[str, str] = {}
    for index in range(shards):
        part = {name: tensors[name] for name in names[index::shards]}
        file = f"model-{index + 1:05d}-of-{shards:05d}.safetensors"
        save_file(part, folder / file, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(part, file))
    total = sum(int(value.nbytes) for value in tensors.values())
    index_json = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index_json))


def toy_spec(folder: Path, **overrides: Any) -> SpecFile:
    """A spec file in `folder` with a tiny target and a tiny draft beside it; `overrides` replace top-level keys.

    The draft has the target's weights for half of its depth, so that some of its tokens are accepted.
    """
    tiny_checkpoint(folder / "target", hidden=64, layers=2, heads=4, kv_heads=2, seed=1)
    tiny_checkpoint(folder / "draft", hidden=64, layers=1, heads=4, kv_heads=2, seed=1)
    data: dict[str, Any] = {
        "version": 1,
        "name": "toy",
        "runtime": "torch",
        "target": {"checkpoint": "target"},
        "draft": {"checkpoint": "draft"},
        "speculation": {"draft_length": 4},
        **overrides,
    }
    path = folder / "trtspec.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return load_spec(path)
