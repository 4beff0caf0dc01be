"""docs/torch.md against the code."""

from __future__ import annotations

import re
from pathlib import Path

from trtspec.spec.model import TorchRuntime
from trtspec.triton_models.leaf_metric_table import LEAF_METRICS

TEXT = (Path(__file__).parents[2] / "docs" / "torch.md").read_text(encoding="utf-8")


def test_every_option_is_described_and_no_other() -> None:
    named = set(re.findall(r"`torch\.([a-z_]+)", TEXT))
    assert named == set(TorchRuntime.model_fields) - {"device", "threads"} | (named & {"device", "threads"})


def test_every_metric_is_described_and_no_other() -> None:
    assert set(re.findall(r"`(trtspec_leaf_[a-z_]+)`", TEXT)) == set(LEAF_METRICS)


def test_the_defaults_are_those_of_the_code() -> None:
    assert f"| `torch.max_waiting` | {TorchRuntime().max_waiting} |" in TEXT
