"""Samples as mean and percentiles, and only those percentiles that the sample carries.

Every figure is the same on every machine: no sum depends on the order in which a processor adds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CONFIDENCE", "MINIMUM", "describe", "exact_sum", "missing", "percentile", "scalar", "share", "wilson"]

HIGH_TAIL = (90, 95, 99)
# samples that a percentile needs: at least one of them must lie beyond it
MINIMUM = {50: 1, 90: 10, 95: 20, 99: 100, 10: 10, 5: 20, 1: 100}
CONFIDENCE = 0.95


def percentile(ordered: Sequence[float], rank: float) -> float:
    """Percentile `rank` (0 to 100) of sorted values, linear between neighbours (numpy's default)."""
    low, share_above = _place(len(ordered), rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * share_above


def _place(count: int, rank: float) -> tuple[int, float]:
    position = (count - 1) * rank / 100
    low = math.floor(position)
    return low, position - low


def describe(
    values: Sequence[float] | NDArray[Any],
    unit: str,
    *,
    scale: float = 1.0,
    higher_is_better: bool = False,
    absent: str = "",
) -> dict[str, Any]:
    """`{"mean","p50",…,"count","unit","reason"}`; `absent` is the reason when there are no values.

    `scale` turns the values into `unit`. Where higher is better the tail is the low one: p10, p5 and p1 are filled and
    p90, p95, p99 stay None (the best one per cent would flatter). A percentile whose sample is too small is None and
    `reason` tells.
    """
    import numpy as np

    count = len(values)
    if not count:
        return missing(unit, absent or "no samples", higher_is_better=higher_is_better)
    column = np.asarray(values)
    ranks = (50, *_tail(higher_is_better=higher_is_better))
    carried = [rank for rank in ranks if count >= MINIMUM[rank]]
    small = [f"p{rank} needs {MINIMUM[rank]}" for rank in ranks if count < MINIMUM[rank]]
    return {
        "mean": exact_sum(column) / count * scale,
        **_empty(higher_is_better=higher_is_better),
        **{f"p{rank}": value * scale for rank, value in _percentiles(column, carried).items()},
        "count": count,
        "unit": unit,
        "reason": f"{count} samples: {', '.join(small)}" if small else None,
    }


def _percentiles(column: NDArray[Any], ranks: Sequence[int]) -> dict[int, float]:
    """`percentile` of unsorted values: only the places that are asked for are put in order."""
    import numpy as np

    places = {rank: _place(len(column), rank) for rank in ranks}
    needed = sorted({at for low, _ in places.values() for at in (low, min(low + 1, len(column) - 1))})
    ordered = np.partition(column, needed)
    at = {place: ordered[place].item() for place in needed}
    last = len(column) - 1
    return {rank: at[low] + (at[min(low + 1, last)] - at[low]) * above for rank, (low, above) in places.items()}


def exact_sum(column: NDArray[Any]) -> float:
    """The sum, free of the order of adding: integers exactly, others in units of 2^-53 of the largest value."""
    import numpy as np

    if column.dtype.kind in "iub":
        return _integer_sum(column)
    exponent = math.frexp(float(np.abs(column).max(initial=0.0)))[1] - 53
    scaled = np.rint(np.ldexp(column, -exponent)).astype(np.int64)
    return math.ldexp(_integer_sum(scaled), exponent)


def _integer_sum(column: NDArray[Any]) -> int:
    """In halves, so that no sum of 64-bit values overflows."""
    high, low = column.astype("int64") >> 32, column.astype("int64") & 0xFFFFFFFF
    return (int(high.sum()) << 32) + int(low.sum())


def missing(unit: str, reason: str, *, higher_is_better: bool = False) -> dict[str, Any]:
    """The row of something that was not measured."""
    empty = _empty(higher_is_better=higher_is_better)
    return {"mean": None, **empty, "count": 0, "unit": unit, "reason": reason}


def scalar(value: float | None, unit: str, count: int, reason: str) -> dict[str, Any]:
    """The row of a quantity with one value for all `count` requests; percentiles do not exist."""
    return {**missing(unit, reason), "mean": value, "count": count}


def share(hits: int, count: int) -> dict[str, Any]:
    """`{"share","low","high","confidence","count"}` of hits among `count`, with its Wilson interval; None without."""
    low, high = wilson(hits, count) if count else (None, None)
    return {
        "share": hits / count if count else None,
        "low": low,
        "high": high,
        "confidence": CONFIDENCE,
        "count": count,
    }


def wilson(hits: int, count: int) -> tuple[float, float]:
    """The 95 % score interval of a share (Wilson 1927): inside 0 to 1 and sensible at 0 and at `count` hits.

    **Formula:** (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n) with p = hits / n and z = 1.96.
    """
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    observed = hits / count
    centre = observed + z * z / (2 * count)
    reach = z * math.sqrt(observed * (1 - observed) / count + z * z / (4 * count * count))
    scale = 1 + z * z / count
    low, high = (centre - reach) / scale, (centre + reach) / scale
    return (0.0 if hits == 0 else low), (1.0 if hits == count else high)


def _tail(*, higher_is_better: bool) -> tuple[int, ...]:
    return tuple(100 - rank for rank in HIGH_TAIL) if higher_is_better else HIGH_TAIL


def _empty(*, higher_is_better: bool) -> dict[str, None]:
    ranks = (50, *HIGH_TAIL, *(_tail(higher_is_better=True) if higher_is_better else ()))
    return {f"p{rank}": None for rank in ranks}
