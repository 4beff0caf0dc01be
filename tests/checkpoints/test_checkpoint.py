"""Whole folders: all parts, all failures, end ids, and speed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import tiny_checkpoint
from trtspec.checkpoints import read_checkpoint, survey_checkpoint
from trtspec.errors import CheckpointError


def test_every_fact_of_a_checkpoint(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(tiny_checkpoint(tmp_path, hidden=32, layers=3, heads=4, kv_heads=2, dtype="float16"))
    config = checkpoint.config
    assert (config.architecture, config.model_type) == ("LlamaForCausalLM", "llama")
    assert (config.layers, config.hidden, config.heads, config.kv_heads) == (3, 32, 4, 2)
    assert (config.tied, config.dtype, config.remote_code) == (True, "float16", False)
    assert checkpoint.vocab_size == checkpoint.tokenizer.width == config.vocab_size
    assert checkpoint.weights.size == 2 * checkpoint.weights.parameters
    assert checkpoint.end_ids == (2,)
    assert checkpoint.chat_template is not None


def test_end_ids_are_the_union_of_three_sources(tmp_path: Path) -> None:
    """NVIDIA/TensorRT-LLM#250: models have several ends, a single one is not enough."""
    folder = tiny_checkpoint(tmp_path)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 8, 9]}))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": 8}))
    assert read_checkpoint(folder).end_ids == (7, 8, 9, 2)
    (folder / "generation_config.json").unlink()
    assert read_checkpoint(folder).end_ids == (8, 2)


def test_a_survey_collects_every_failure(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path)
    (folder / "config.json").write_text("{")
    (folder / "tokenizer.json").write_bytes(b"\xff\xfe")
    (folder / "generation_config.json").write_text("[]")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    survey = survey_checkpoint(folder)
    assert {failure.part for failure in survey.failures} == {"weights", "tokenizer", "config", "generation_config"}
    assert all(str(folder) in str(failure.error) for failure in survey.failures)
    with pytest.raises(CheckpointError, match="is cut off: 100 bytes of tensor data are missing"):
        read_checkpoint(folder)


def test_metadata_alone_is_read_and_says_what_is_not_there(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path, shards=3)
    for file in folder.glob("*.safetensors"):
        file.unlink()
    survey = survey_checkpoint(folder)
    assert [(failure.part, failure.code) for failure in survey.failures] == [("weights", "shards-missing")]
    assert survey.weights is None
    assert survey.index is not None
    assert len(survey.index.missing) == 3
    assert survey.config is not None
    assert survey.tokenizer is not None
    assert survey.quantization is None
    (folder / "model.safetensors.index.json").unlink()
    bare = survey_checkpoint(folder)
    assert [(failure.part, failure.code) for failure in bare.failures] == [("weights", "no-weights")]
    assert bare.index is None


def test_a_failure_without_a_word_of_its_own(tmp_path: Path) -> None:
    assert [failure.code for failure in survey_checkpoint(tmp_path / "gone").failures] == ["folder-missing"]
    folder = tiny_checkpoint(tmp_path / "checkpoint")
    (folder / "config.json").unlink()
    (folder / "config.json").mkdir()
    assert [(f.part, f.code) for f in survey_checkpoint(folder).failures] == [("config", "is-folder")]


@pytest.mark.parametrize("tie", [True, False])
def test_small_tied_models_have_no_head_tensor(tmp_path: Path, tie: bool) -> None:
    """NVIDIA/TensorRT-LLM#1733: conversion of small tied models looked for a head that is not there."""
    checkpoint = read_checkpoint(tiny_checkpoint(tmp_path, tie=tie))
    assert checkpoint.config.tied is tie
    assert (checkpoint.weights.head is None) is tie


def test_a_broken_tokenizer_config_is_one_failure(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path)
    (folder / "tokenizer_config.json").write_text("{")
    assert [failure.part for failure in survey_checkpoint(folder).failures] == ["tokenizer"]


def test_reading_needs_none_of_the_heavy_packages(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path)
    code = (
        "import sys; from pathlib import Path; from trtspec.checkpoints import read_checkpoint;"
        f"read_checkpoint(Path({str(folder)!r}));"
        "heavy = {'torch', 'transformers', 'numpy', 'tokenizers', 'safetensors', 'gguf', 'jinja2'};"
        "sys.exit(', '.join(heavy & sys.modules.keys()) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
