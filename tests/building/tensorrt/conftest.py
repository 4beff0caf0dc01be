"""A machine that can build, for every test that asks for `box`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.building.tensorrt.gpu_box import GpuBox, make_gpu_box


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GpuBox:
    """One GPU, TensorRT-LLM 1.2.1, a tiny pair."""
    return make_gpu_box(tmp_path, monkeypatch)
