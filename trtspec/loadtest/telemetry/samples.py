"""`telemetry.jsonl`: gauges of both arms' servers and of the GPUs, about once a second, by a process of its own.

A line is `{"t_ns", "arm", "gauges": {figure: {model: value}}}` or `{"t_ns", "gpus": [row of GpuMeter.read]}`. The clock
is the records' (perf_counter_ns counts from boot for every process on Linux).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trtspec.files import json_lines
from trtspec.loadtest.telemetry.families import GAUGES, Family
from trtspec.loadtest.telemetry.scrape import Scrape, is_number

__all__ = ["FILE_NAME", "Samples", "gauges", "read_samples"]

FILE_NAME = "telemetry.jsonl"


@dataclass(frozen=True)
class Samples:
    """All samples of a run in order of time: gauges by arm, rows by GPU."""

    gauges: Mapping[str, list[tuple[int, dict[str, dict[str, float]]]]] = field(default_factory=dict)
    gpus: Mapping[int, list[dict[str, Any]]] = field(default_factory=dict)


def gauges(scrape: Scrape) -> dict[str, dict[str, float]]:
    """Figure → model → value, of every figure in GAUGES that the server exports; "" where it names no model."""
    found = {
        name: next(filter(None, (_by_model(scrape, family) for family in of)), None) for name, of in GAUGES.items()
    }
    return {name: values for name, values in found.items() if values}


def _by_model(scrape: Scrape, family: Family) -> dict[str, float]:
    values: dict[str, float] = {}
    for (name, pairs), number in scrape.values.items():
        labels = dict(pairs)
        if name == family.name and all(labels.get(key) == text for key, text in family.labels.items()):
            model = labels.get("model") or labels.get("model_name") or ""
            values[model] = values.get(model, 0.0) + number * family.scale
    return values


def read_samples(path: Path) -> Samples:
    """The samples in `path`; none when it is not there. Lines that are cut off or of another shape are left out."""
    by_arm: dict[str, list[tuple[int, dict[str, dict[str, float]]]]] = {}
    by_gpu: dict[int, list[dict[str, Any]]] = {}
    for line in _lines(path):
        t_ns, arm, found = line.get("t_ns"), line.get("arm"), line.get("gauges")
        if isinstance(t_ns, int) and isinstance(arm, str) and isinstance(found, dict):
            by_arm.setdefault(arm, []).append((t_ns, {name: _numbers(of) for name, of in found.items()}))
        for row in line.get("gpus") or ():
            if isinstance(row, dict) and isinstance(row.get("gpu"), int) and isinstance(row.get("t_ns"), int):
                by_gpu.setdefault(row["gpu"], []).append(row)
    return Samples(
        {arm: sorted(rows, key=lambda row: row[0]) for arm, rows in sorted(by_arm.items())},
        {gpu: sorted(rows, key=lambda row: int(row["t_ns"])) for gpu, rows in sorted(by_gpu.items())},
    )


def _numbers(of: Any) -> dict[str, float]:
    if not isinstance(of, dict):
        return {}
    return {str(model): float(number) for model, number in of.items() if is_number(number)}


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for line in json_lines(text):
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(data, dict):
            yield data
