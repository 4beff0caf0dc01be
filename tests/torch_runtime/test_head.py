"""A draft's head over its frequent tokens, and the file that names them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.builders import tiny_checkpoint, toy_spec
from tests.torch_runtime.engines import CPU, collect, open_engine
from trtspec.building import build_engines
from trtspec.checkpoints.draft_vocabulary import DRAFT_VOCABULARY, read_draft_vocabulary, write_draft_vocabulary
from trtspec.errors import CheckpointError
from trtspec.torch_runtime.head import output_head
from trtspec.torch_runtime.request import GenerationRequest


def test_restricted_logits_are_those_of_the_whole_head() -> None:
    weight, rows = torch.randn(50, 16), torch.randn(3, 16)
    ids = torch.tensor([2, 7, 40])
    with torch.inference_mode():
        whole, restricted = output_head(weight)(rows), output_head(weight, ids)(rows)
    torch.testing.assert_close(restricted[:, ids], whole[:, ids])
    others = [token for token in range(50) if token not in (2, 7, 40)]
    assert torch.isneginf(restricted[:, others]).all()


def test_only_a_draft_engine_is_restricted_and_its_key_follows_the_list(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    plain = build_engines(spec_file, ["draft"])[0]
    for role in ("target", "draft"):
        write_draft_vocabulary(tmp_path / role, range(100, 140))
    target, draft = build_engines(spec_file, ["target", "draft"])
    assert draft.key != plain.key
    assert not (target.path / DRAFT_VOCABULARY).exists()
    request = GenerationRequest(tuple(range(5, 30)), 12)
    answers = {}
    for built in (target, draft, plain):
        engine = open_engine(built.path, CPU)
        answers[built.path] = collect(engine, request).tokens
        engine.close()
    assert all(100 <= token < 140 for token in answers[draft.path])
    assert not all(100 <= token < 140 for token in answers[target.path])
    assert not all(100 <= token < 140 for token in answers[plain.path])


WRONG = ["", "[]", "{", "null", "[" * 100_000, '{"ids": []}', '{"ids": [1, 5000]}', '{"ids": [-1]}', '{"ids": [true]}']


@pytest.mark.parametrize("text", [*WRONG, '{"ids": "1"}', '{"schema": 2, "ids": [1]}'], ids=lambda text: text[:20])
def test_a_wrong_list_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / DRAFT_VOCABULARY).write_text(text)
    with pytest.raises(CheckpointError, match=DRAFT_VOCABULARY) as wrong:
        read_draft_vocabulary(tmp_path, 320)
    assert "or remove it" in str(wrong.value.fix)


def test_a_wrong_list_stops_the_build_before_anything_is_written(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    write_draft_vocabulary(tmp_path / "draft", [5000])
    with pytest.raises(CheckpointError, match="outside the vocabulary"):
        build_engines(spec_file)
    assert not spec_file.engines("baseline").exists()


def test_no_list_no_limit(tmp_path: Path) -> None:
    tiny_checkpoint(tmp_path)
    assert read_draft_vocabulary(tmp_path, 320) is None
    write_draft_vocabulary(tmp_path, [9, 3, 9])
    assert read_draft_vocabulary(tmp_path, 320) == [3, 9]
