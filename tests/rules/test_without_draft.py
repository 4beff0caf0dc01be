"""A target without a second model: rules about a draft are silent, those about the target are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders import tiny_checkpoint, toy_spec
from trtspec.errors import PairError
from trtspec.rules import CheckResult, check_pair, require_pair


def checked(folder: Path, method: str = "ngram", **overrides: Any) -> CheckResult:
    draft = {"method": method, **({"checkpoint": "draft"} if method == "lookup" else {})}
    return check_pair(toy_spec(folder, **{"draft": draft, **overrides}))


@pytest.mark.parametrize("runtime", ["torch", "tensorrt_llm"])
def test_nothing_is_said_about_a_draft_that_is_not_there(tmp_path: Path, runtime: str) -> None:
    found = checked(tmp_path, runtime=runtime, speculation={"draft_length": 16})
    assert found.ok
    assert {finding.role for finding in found.findings} <= {"target", "spec"}
    assert "draft-length-long" not in {finding.id for finding in found.findings}
    data = found.to_json()
    assert (data["pair"], data["draft_method"], set(data["checkpoints"])) == (None, "ngram", {"target"})
    assert found.verdict.startswith("the target fits")


def test_what_is_wrong_with_the_target_is_found(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path, draft={"method": "ngram"}, build={"max_seq_len": 4096})
    found = check_pair(spec_file)
    assert [finding.id for finding in found.of_level("error")] == ["max-seq-len-too-long"]
    with pytest.raises(PairError, match="the target cannot be served"):
        require_pair(spec_file)


def test_a_lookup_before_a_model_is_checked_as_a_pair(tmp_path: Path) -> None:
    assert "draft-costly" in {finding.id for finding in checked(tmp_path, "lookup").findings}


def test_padding_is_no_fault_where_the_runtime_pads(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path, speculation={"acceptance": "logits"})
    tiny_checkpoint(tmp_path / "draft", hidden=64, layers=1, heads=4, kv_heads=2, seed=1, vocab_size=640)
    found = {finding.id: finding for finding in check_pair(spec_file).findings}
    assert found["vocabulary-sizes-differ"].level == "note"
    assert "it pads" in found["vocabulary-sizes-differ"].message
