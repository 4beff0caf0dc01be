"""The concurrency at which speculation stops to pay, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from trtspec.loadtest.intervals import CONFIDENCE, Interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BreakEven", "Point", "break_even"]

Point = tuple[float, Interval]

_DRAWS = 4000


@dataclass(frozen=True)
class BreakEven:
    """Where the speed-up becomes 1.

    `at` None with a `reason` when it does not within the measured range. `low` None: it may lie below the smallest
    measured concurrency; `high` None: it may lie above the largest. `crossing` is the share of the drawn curves that
    fall through 1 within the range.
    """

    at: float | None
    reason: str | None
    low: float | None = None
    high: float | None = None
    crossing: float | None = None
    interval_reason: str | None = None

    def interval_json(self) -> dict[str, Any]:
        """`break_even_interval` of a summary."""
        return {
            "low": self.low,
            "high": self.high,
            "confidence": CONFIDENCE,
            "crossing": self.crossing,
            "reason": self.interval_reason,
        }


Likeness = Sequence[Sequence[float]]


def break_even(points: Sequence[Point], likeness: Likeness | None = None, *, seed: int = 1) -> BreakEven:
    """From (concurrency, speed-up) in rising order of concurrency.

    The curve is linear in log2(concurrency) and log(speed-up) between measured points. The interval is that of the
    crossing over curves drawn from the points' own uncertainty (estimate + spread x Student's t); a curve that does not
    cross counts as crossing below or above the range. `likeness` [points, points] says how much the points' errors go
    together (`trtspec.loadtest.intervals.Strata`); without it they are independent. Levels with the same prompts are
    off in the same direction, which moves the crossing further than errors that cancel.
    """
    chosen = [index for index, (_, speedup) in enumerate(points) if speedup.estimate]
    known = [points[index] for index in chosen]
    alike = _correlation(likeness or [[float(k == m) for m in range(len(points))] for k in range(len(points))], chosen)
    where, reason = _crossing([(at, speedup.estimate or 0.0) for at, speedup in known])
    if len(known) < 2 or any(speedup.spread is None for _, speedup in known):
        needed = "needs an interval at two concurrencies or more"
        return BreakEven(where, reason, interval_reason=needed)
    crossings = _drawn(known, alike, seed)
    if not len(crossings):
        return BreakEven(where, reason, interval_reason="the speed-up does not fall steadily with concurrency")
    low, high = _limits(crossings)
    share = float((abs(crossings) < math.inf).mean())
    return BreakEven(where, reason, low, high, share, _open_ends(low, high, known))


def _crossing(known: Sequence[tuple[float, float]]) -> tuple[float | None, str | None]:
    if len(known) < 2:
        return None, "needs at least two concurrencies"
    for (c0, s0), (c1, s1) in pairwise(known):
        if s0 >= 1 > s1:
            share = math.log(s0) / (math.log(s0) - math.log(s1))
            return float(2 ** (math.log2(c0) + share * (math.log2(c1) - math.log2(c0)))), None
    if all(s >= 1 for _, s in known):
        return None, f"speculation was not slower at any measured concurrency (up to {known[-1][0]:g})"
    if all(s < 1 for _, s in known):
        return None, f"speculation was not faster at any measured concurrency (from {known[0][0]:g})"
    return None, "the speed-up does not fall steadily with concurrency"


def _correlation(likeness: Likeness, chosen: Sequence[int]) -> list[list[float]]:
    return [[likeness[k][m] / math.sqrt(likeness[k][k] * likeness[m][m]) for m in chosen] for k in chosen]


def _root(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    """The lower triangle whose product with its transpose is `matrix` (Cholesky); columns that add nothing are 0."""
    found = [[0.0] * len(matrix) for _ in matrix]
    for row, values in enumerate(matrix):
        for column in range(row + 1):
            rest = values[column] - math.fsum(a * b for a, b in zip(found[row], found[column], strict=True))
            if row == column:
                found[row][row] = math.sqrt(rest) if rest > 1e-9 else 0.0
            elif found[column][column]:
                found[row][column] = rest / found[column][column]
    return found


def _drawn(known: Sequence[Point], correlation: Sequence[Sequence[float]], seed: int) -> NDArray[Any]:
    """log2 of the crossing of every drawn curve, -inf and inf where it lies outside; curves that rise are dropped."""
    import numpy as np
    from scipy.special import ndtr, stdtrit

    rng = np.random.default_rng(seed)
    normal = rng.standard_normal((len(known), _DRAWS))
    # added up one by one: the last digits of a matrix product differ between processors
    together = [sum(share * own for share, own in zip(row, normal, strict=True)) for row in _root(correlation)]
    # quantiles, so that levels with few units get Student's long tails
    uniform = ndtr(np.stack(together, axis=1))
    spreads = np.array([speedup.spread for _, speedup in known])
    degrees = np.array([speedup.degrees for _, speedup in known])
    curves = np.log([speedup.estimate or 1.0 for _, speedup in known]) + stdtrit(degrees, uniform) * spreads
    place = np.log2([at for at, _ in known])
    falls = (curves[:, :-1] >= 0) & (curves[:, 1:] < 0)
    first = falls.argmax(axis=1)
    rows = np.arange(_DRAWS)
    upper, lower = curves[rows, first], curves[rows, first + 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = place[first] + upper / (upper - lower) * (place[first + 1] - place[first])
    outside = np.where((curves >= 0).all(axis=1), np.inf, np.where((curves < 0).all(axis=1), -np.inf, np.nan))
    crossings = np.where(falls.any(axis=1), inside, outside)
    found: NDArray[Any] = crossings[~np.isnan(crossings)]
    return found


def _limits(crossings: NDArray[Any]) -> tuple[float | None, float | None]:
    import numpy as np

    tail = (1 - CONFIDENCE) / 2
    low, high = (float(v) for v in np.quantile(crossings, [tail, 1 - tail], method="inverted_cdf"))
    return (2**low if math.isfinite(low) else None), (2**high if math.isfinite(high) else None)


def _open_ends(low: float | None, high: float | None, known: Sequence[Point]) -> str | None:
    ends = []
    if low is None:
        ends.append(f"below {known[0][0]:g}")
    if high is None:
        ends.append(f"above {known[-1][0]:g}")
    return f"it may lie {' or '.join(ends)}, outside what was measured" if ends else None
