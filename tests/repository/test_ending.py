"""End ids from all files that name one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import pytest

from tests.builders import tiny_checkpoint
from trtspec.errors import CheckpointError
from trtspec.repository.ending import end_ids


def write(folder: Path, name: str, data: Any) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(data))


def test_the_union_in_order_generation_config_first(tmp_path: Path) -> None:
    write(tmp_path, "generation_config.json", {"eos_token_id": [128001, 128009]})
    write(tmp_path, "config.json", {"eos_token_id": 128001, "text_config": {"eos_token_id": 7}})
    write(tmp_path, "tokenizer_config.json", {"eos_token": {"content": "<|eot|>"}})
    write(tmp_path, "tokenizer.json", {"added_tokens": [{"id": 128010, "content": "<|eot|>"}]})
    assert end_ids([tmp_path]) == (128001, 128009, 7, 128010)


def test_a_gguf_names_the_end_of_a_turn_too(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(str(tmp_path / "model.gguf"), "llama")
    for size in (writer.add_block_count, writer.add_embedding_length, writer.add_head_count):
        size(2)
    writer.add_token_list(["a", "b", "<end>", "<turn>"])
    writer.add_eos_token_id(2)
    writer.add_eot_token_id(3)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    assert end_ids([tmp_path]) == (2, 3)


def test_an_engine_and_its_checkpoint_together(tmp_path: Path) -> None:
    engine, checkpoint = tmp_path / "engine", tmp_path / "checkpoint"
    write(engine, "config.json", {"pretrained_config": {"eos_token_id": 5}})
    write(checkpoint, "generation_config.json", {"eos_token_id": 9})
    assert end_ids([engine, checkpoint]) == (9, 5)


def test_an_end_token_that_is_in_the_vocabulary_only(tmp_path: Path) -> None:
    write(tmp_path, "tokenizer_config.json", {"eos_token": "</s>"})
    write(tmp_path, "tokenizer.json", {"added_tokens": [], "model": {"vocab": {"</s>": 2}}})
    assert end_ids([tmp_path]) == (2,)


def test_a_real_checkpoint(tmp_path: Path) -> None:
    assert end_ids([tiny_checkpoint(tmp_path / "tiny")]) == (2,)


def test_nothing_is_known(tmp_path: Path) -> None:
    write(tmp_path, "config.json", {"eos_token_id": None})
    assert end_ids([tmp_path, tmp_path / "missing"]) == ()


def test_a_file_that_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"generation_config\.json"):
        end_ids([tmp_path])
