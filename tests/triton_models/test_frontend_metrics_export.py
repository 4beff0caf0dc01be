"""Handing the frontend's sums to a server that fails, without a server."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

WARNED: list[str] = []
SUMS: dict[str, float] = {}


class Family:
    """Metrics that fail as long as `broken` is set."""

    COUNTER = GAUGE = "kind"
    broken = False

    def __init__(self, name: str, **_more: str) -> None:
        self.name = name

    def Metric(self, **_labels: Any) -> Family:  # noqa: N802 - Triton's name
        return self

    def increment(self, amount: float) -> None:
        if Family.broken:
            raise RuntimeError("the server is going down")
        SUMS[self.name] = SUMS.get(self.name, 0) + amount

    def set(self, value: float) -> None:
        SUMS[self.name] = value


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """frontend_metrics with a stand-in for Triton's module."""
    names = ["frontend_arrivals", "frontend_calls", "frontend_leaves", "frontend_metrics"]
    for name in names:
        monkeypatch.delitem(sys.modules, f"trtspec.triton_models.{name}", raising=False)
    stand_in = SimpleNamespace(MetricFamily=Family, Logger=SimpleNamespace(log_warn=WARNED.append))
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", stand_in)
    yield importlib.import_module("trtspec.triton_models.frontend_metrics")
    for name in names:
        sys.modules.pop(f"trtspec.triton_models.{name}", None)


def test_a_failing_export_is_told_and_the_next_one_goes_on(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that exports also ends late and cancelled calls: it must not die of it."""
    monkeypatch.setattr(module, "_EXPORT_SECONDS", 0.0)
    metrics = module.Metrics("frontend", "1", lambda: 0)
    metrics.add("trtspec_rounds_total", 3)
    Family.broken = True
    metrics.export()
    assert WARNED == ["metrics of the last second are lost: the server is going down"]
    Family.broken = False
    metrics.add("trtspec_rounds_total", 2)
    metrics.export()
    assert SUMS["trtspec_rounds_total"] == 2
