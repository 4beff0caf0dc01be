"""Samples as mean and percentiles, and only those percentiles that the sample carries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

__all__ = ["MINIMUM", "describe", "missing", "percentile", "scalar"]

HIGH_TAIL = (90, 95, 99)
# samples that a percentile needs: at least one of them must lie beyond it
MINIMUM = {50: 1, 90: 10, 95: 20, 99: 100, 10: 10, 5: 20, 1: 100}


def percentile(ordered: Sequence[float], rank: float) -> float:
    """Percentile `rank` (0 to 100) of sorted values, linear between neighbours (numpy's default)."""
    position = (len(ordered) - 1) * rank / 100
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def describe(values: Sequence[float], unit: str, *, higher_is_better: bool = False, absent: str = "") -> dict[str, Any]:
    """`{"mean","p50",…,"count","unit","reason"}`; `absent` is the reason when there are no values.

    Where higher is better the tail is the low one: p10, p5 and p1 are filled and p90, p95, p99 stay None (the best
    one per cent would flatter). A percentile whose sample is too small is None and `reason` tells.
    """
    if not values:
        return missing(unit, absent or "no samples", higher_is_better=higher_is_better)
    ordered = sorted(values)
    ranks = (50, *_tail(higher_is_better=higher_is_better))
    row: dict[str, Any] = {"mean": math.fsum(ordered) / len(ordered), **_empty(higher_is_better=higher_is_better)}
    small = []
    for rank in ranks:
        if len(ordered) >= MINIMUM[rank]:
            row[f"p{rank}"] = percentile(ordered, rank)
        else:
            small.append(f"p{rank} needs {MINIMUM[rank]}")
    reason = f"{len(ordered)} samples: {', '.join(small)}" if small else None
    return {**row, "count": len(ordered), "unit": unit, "reason": reason}


def missing(unit: str, reason: str, *, higher_is_better: bool = False) -> dict[str, Any]:
    """The row of something that was not measured."""
    empty = _empty(higher_is_better=higher_is_better)
    return {"mean": None, **empty, "count": 0, "unit": unit, "reason": reason}


def scalar(value: float | None, unit: str, count: int, reason: str) -> dict[str, Any]:
    """The row of a quantity with one value for all `count` requests; percentiles do not exist."""
    return {**missing(unit, reason), "mean": value, "count": count}


def _tail(*, higher_is_better: bool) -> tuple[int, ...]:
    return tuple(100 - rank for rank in HIGH_TAIL) if higher_is_better else HIGH_TAIL


def _empty(*, higher_is_better: bool) -> dict[str, None]:
    ranks = (50, *HIGH_TAIL, *(_tail(higher_is_better=True) if higher_is_better else ()))
    return {f"p{rank}": None for rank in ranks}
