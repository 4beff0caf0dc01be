"""GGUF files: a folder with nothing else, and damaged ones."""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import gguf
import numpy as np
import pytest

from tests.builders import tiny_tokenizer_files
from trtspec.checkpoints import compare_tokenizers, read_checkpoint, render_user, survey_checkpoint
from trtspec.checkpoints.gguf_file import GgufFile, gguf_config, gguf_tokenizer, read_gguf
from trtspec.checkpoints.tokenizer import read_tokenizer
from trtspec.errors import CheckpointError, EnvironmentMissing


def write_gguf(path: Path, tokens: Sequence[str], merges: Sequence[str], *, padding: int = 0) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_embedding_length(8)
    writer.add_context_length(256)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    padded = [*tokens, *(f"[PAD{len(tokens) + index}]" for index in range(padding))]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(padded)
    writer.add_token_types([3] * 3 + [1] * (len(tokens) - 3) + [5] * padding)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_chat_template("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}")
    writer.add_tensor("token_embd.weight", np.zeros((len(padded), 8), np.float16))
    writer.add_tensor("blk.0.attn_norm.weight", np.ones(8, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tokenizer_of(folder: Path) -> tuple[list[str], list[str]]:
    import json

    tiny_tokenizer_files(folder)
    data = json.loads((folder / "tokenizer.json").read_text())
    vocab: Mapping[str, int] = data["model"]["vocab"]
    merges = [" ".join(pair) if isinstance(pair, list) else pair for pair in data["model"]["merges"]]
    return [text for text, _ in sorted(vocab.items(), key=lambda item: item[1])], merges


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokens, merges = tokenizer_of(tmp_path / "hf")
    (tmp_path / "gguf").mkdir()
    write_gguf(tmp_path / "gguf" / "model.gguf", tokens, merges, padding=5)
    return tmp_path / "gguf"


def test_every_fact_comes_from_the_file(folder: Path) -> None:
    checkpoint = read_checkpoint(folder)
    config = checkpoint.config
    assert (config.architecture, config.layers, config.hidden) == ("LlamaForCausalLM", 1, 8)
    assert (config.heads, config.kv_heads, config.max_positions, config.tied) == (2, 1, 256, True)
    assert checkpoint.weights.format == "gguf"
    assert checkpoint.vocab_size == checkpoint.tokenizer.width + 5
    assert checkpoint.weights.embedding is not None
    assert checkpoint.weights.embedding.shape == (checkpoint.vocab_size, 8)
    assert checkpoint.weights.bytes_by_dtype == {"F16": checkpoint.vocab_size * 16, "F32": 32}
    assert checkpoint.end_ids == (2,)
    assert render_user(folder, "hi") == "<|endoftext|>hi<|im_end|>"


def test_its_tokenizer_is_the_same_as_the_hugging_face_one(folder: Path) -> None:
    hf = folder.parent / "hf"
    theirs = read_tokenizer(hf, [entry.name for entry in hf.iterdir()])
    match = compare_tokenizers(theirs, read_checkpoint(folder).tokenizer)
    assert match.relation == "same"
    assert match.merges is True
    assert match.pre_tokenizer is None, "GGUF names its pre-tokenizer, it does not carry it"


def test_other_files_beside_it_stand_before_its_metadata(folder: Path) -> None:
    tiny_tokenizer_files(folder, extra_tokens=("<new>",))
    survey = survey_checkpoint(folder)
    assert survey.tokenizer is not None
    assert survey.tokenizer.source == "tokenizer.json"
    assert "<new>" in survey.tokenizer.tokens.values()


@pytest.mark.parametrize("keep", [4, 12, 200, 3000, -10])
def test_a_cut_file_is_refused(folder: Path, keep: int) -> None:
    path = folder / "model.gguf"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match="cut off") as caught:
        read_gguf(path)
    assert caught.value.where == str(path)


@pytest.mark.parametrize("content", [b"", b"GGML\x00\x00\x00\x00", b"GG"])
def test_something_else_is_refused(folder: Path, content: bytes) -> None:
    (folder / "model.gguf").write_bytes(content)
    with pytest.raises(CheckpointError, match="is not a GGUF file"):
        read_gguf(folder / "model.gguf")


def test_without_the_package_the_way_to_get_it_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> ModuleType:
        if name == "gguf":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(EnvironmentMissing) as caught:
        read_gguf(folder / "model.gguf")
    assert caught.value.fix == "pip install 'trtspec[local]'"


def test_sizes_from_the_metadata(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "gemma2")
    writer.add_block_count(26)
    writer.add_embedding_length(2304)
    writer.add_feed_forward_length(9216)
    writer.add_head_count(8)
    writer.add_head_count_kv(4)
    writer.add_key_length(256)
    writer.add_sliding_window(4096)
    writer.add_tensor("blk.0.ffn_gate.weight", np.zeros((4, 4), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    config = gguf_config(read_gguf(path))
    assert (config.head_dim, config.intermediate, config.kv_heads) == (256, 9216, 4)
    assert (config.sliding_window, config.windowed_layers, config.gated_mlp) == (4096, 13, True)
    assert (config.experts, config.dense_layers, config.quant) == (None, None, None)


ODD: dict[str, tuple[str, Any, str]] = {
    "layers without end": ("llama.block_count", 1 << 40, "llama.block_count is 1099511627776, more than any model has"),
    "width without end": ("llama.embedding_length", [8, 1 << 40], "llama.embedding_length is"),
    "text for an end id": ("tokenizer.ggml.eos_token_id", "2", "a token id is expected"),
    "a list for a begin id": ("tokenizer.ggml.bos_token_id", [0], "a token id is expected"),
    "numbers for tokens": ("tokenizer.ggml.tokens", [1, 2], "carries no tokenizer"),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_metadata_is_a_fault_of_the_file(folder: Path, case: str) -> None:
    key, value, message = ODD[case]
    file = read_gguf(folder / "model.gguf")
    odd = GgufFile(file.path, {**file.metadata, key: value}, file.tensors)
    with pytest.raises(CheckpointError, match=re.escape(message)):
        (gguf_tokenizer(odd), gguf_config(odd))


def test_odd_sizes_and_kinds_are_left_out(folder: Path) -> None:
    file = read_gguf(folder / "model.gguf")
    odd = {"llama.block_count": "1", "llama.context_length": True, "llama.feed_forward_length": ["a", 16],
           "tokenizer.ggml.token_type": 3}  # fmt: skip
    changed = GgufFile(file.path, {**file.metadata, **odd}, file.tensors)
    config = gguf_config(changed)
    assert (config.layers, config.max_positions, config.intermediate) == (None, None, 16)
    assert gguf_tokenizer(changed).special == frozenset()
