"""docs/frontend.md against the code: inputs, outputs, error codes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trtspec.repository.tensors import FRONTEND_INPUTS, FRONTEND_OUTPUTS, LOGITS_INPUTS, LOOKUP_OUTPUTS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "frontend.md").read_text(encoding="utf-8")
MODELS = [path.read_text(encoding="utf-8") for path in (ROOT / "trtspec/triton_models").glob("frontend*.py")]


def first_cells(section: str) -> set[str]:
    """The names in the first column of the table in a section."""
    part = TEXT.split(f"## {section}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", part, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}


@pytest.mark.parametrize(
    ("section", "tensors"),
    [("Inputs", FRONTEND_INPUTS + LOGITS_INPUTS), ("Outputs", FRONTEND_OUTPUTS + LOOKUP_OUTPUTS)],
)
def test_every_tensor_is_described_and_no_other(section: str, tensors: tuple[object, ...]) -> None:
    assert first_cells(section) == {getattr(tensor, "name", "") for tensor in tensors}


def test_every_error_code_is_described_and_no_other() -> None:
    code = "\n".join(MODELS)
    raised = set(re.findall(r'RequestError\(\s*"([a-z_]+)"', code)) | set(re.findall(r'_fail\(job, "([a-z_]+)"', code))
    assert first_cells("Errors") == raised
