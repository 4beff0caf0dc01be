"""A ratio of sums with an interval that holds what it promises, also with few units and heavy tails.

A *unit* is what varies independently of the others: a pair of answers at concurrency 1, a block of requests that ran
together above it. Everything here works on sums over units, so a million requests cost no more than sixty.

Why a jackknife with Student's t, and not a bootstrap: `benchmarks/simulated_ab.py` makes a thousand A/Bs in each of
many worlds whose truth is known. There BCa intervals (scipy's, over the same units) hold the truth in 90 to 92 % of the
tests with heavy tails, 20 prompts or 8 blocks, and call a difference in 21 % of the A/A tests with heavy tails and
drift; the jackknife of the logarithm holds it in 93 to 97 % throughout. docs/statistics.md has the table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "AB_SIGNS",
    "CONFIDENCE",
    "MINIMUM",
    "RATE_SIGNS",
    "Interval",
    "Strata",
    "UnitWord",
    "batched_interval",
    "batches",
    "ratio_interval",
    "row",
    "student_quantile",
    "unknown",
]

UnitWord = Literal["pairs", "prompts", "blocks"]

CONFIDENCE = 0.95
# fewer units say too little about how units differ; a block is a sum over many requests and needs fewer
MINIMUM = {"pairs": 5, "prompts": 5, "blocks": 3}
# neighbouring units are merged until fewer than twice this many are left: it costs 1 % of the width and makes noise
# that lasts longer than one unit harmless
_UNITS = 40
# baseline time, baseline work, speculative time, speculative work → how many times faster
AB_SIGNS = (1.0, -1.0, -1.0, 1.0)
# amount, time → a rate
RATE_SIGNS = (1.0, -1.0)


@dataclass(frozen=True)
class Interval:
    """An estimate and its interval; None with a reason where it cannot be told.

    `count` are the pairs (or requests) behind it, `units` the independent units, `spread` the standard error of the
    estimate's logarithm with `degrees` of freedom.
    """

    estimate: float | None
    low: float | None
    high: float | None
    count: int
    reason: str | None = None
    units: int = 0
    spread: float | None = None
    degrees: float | None = None

    @property
    def relative_width(self) -> float | None:
        """**Formula:** (high - low) / estimate; None without an interval."""
        if self.low is None or self.high is None or not self.estimate:
            return None
        return (self.high - self.low) / self.estimate

    @property
    def holds_one(self) -> bool:
        """True when the interval contains 1: no difference is shown."""
        return self.low is not None and self.high is not None and self.low <= 1 <= self.high


@dataclass(frozen=True)
class Strata:
    """The load level of every unit, and by how much levels vary together.

    `likeness` [levels, levels]: the variance of a sum over levels is Σ likeness[k, l] x s[k] x s[l], s being each
    level's own standard error over its units. The unit matrix says that levels are independent of one another.
    """

    of: NDArray[Any]
    likeness: NDArray[Any]

    def select(self, chosen: NDArray[Any]) -> Strata:
        """Of some of the units."""
        return Strata(self.of[chosen], self.likeness)


def unknown(reason: str, count: int = 0) -> Interval:
    """What was not measured."""
    return Interval(None, None, None, count, reason)


def row(interval: Interval) -> dict[str, Any]:
    """The interval in a summary."""
    return {
        "estimate": interval.estimate,
        "low": interval.low,
        "high": interval.high,
        "confidence": CONFIDENCE,
        "count": interval.count,
        "units": interval.units,
        "reason": interval.reason,
    }


def student_quantile(degrees: float, probability: float = 1 - (1 - CONFIDENCE) / 2) -> float:
    """Quantile of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))


def batches(count: int) -> NDArray[Any]:
    """The batch of neighbours that each of `count` units in order of time belongs to (0, 0, 1, 1, and so on).

    Every unit stays alone below 80; from there on there are 40 to 79 batches of nearly equal size.
    """
    import numpy as np

    groups = count if count < 2 * _UNITS else count // (count // _UNITS)
    return np.arange(count) * groups // max(1, count)


def ratio_interval(
    sums: NDArray[Any],
    signs: Sequence[float] = AB_SIGNS,
    *,
    strata: Strata | None = None,
    count: int | None = None,
    unit: UnitWord = "pairs",
) -> Interval:
    """The product of column totals, each to the power of its sign, with its 95 % interval.

    `sums` has a row a unit; `strata` are the levels that units are compared within. **Formula:** with signs
    (1, -1, -1, 1): (Σ baseline time / Σ baseline work) / (Σ speculative time / Σ speculative work), a ratio of sums, so
    long answers weigh more, as they do on a clock. Interval: exp(log estimate ± t x s), s from the delete-one jackknife
    of the logarithm within strata (Efron and Tibshirani 1993, chapter 11), t Student's with Satterthwaite's degrees of
    freedom, for which unequal units count as fewer equal ones (Kish: (Σ w)² / Σ w²). Levels that share prompts are not
    independent of one another (`Strata`).
    """
    import numpy as np

    count = len(sums) if count is None else count
    if not len(sums):
        return unknown("no pair has this in both arms" if len(signs) == len(AB_SIGNS) else "nothing was measured")
    total = sums.sum(axis=0)
    if not (total > 0).all():
        return unknown("a total is zero", count)
    powers = np.asarray(signs, dtype=float)
    estimate = math.prod(total[powers > 0].tolist()) / math.prod(total[powers < 0].tolist())
    strata = Strata(np.zeros(len(sums), dtype=np.int64), np.eye(1)) if strata is None else strata
    there = np.unique(strata.of)
    parts = [sums[strata.of == stratum] for stratum in there]
    if min(map(len, parts)) < MINIMUM[unit]:
        return Interval(estimate, None, None, count, _too_few(unit), units=len(sums))
    found = _jackknife(parts, total, powers, strata.likeness[there][:, there].tolist())
    if found is None:
        return Interval(estimate, None, None, count, f"one of the {unit} is nearly all there is", units=len(sums))
    variance, degrees = found
    spread = math.sqrt(variance)
    reach = student_quantile(degrees) * spread
    return Interval(
        estimate, estimate * math.exp(-reach), estimate * math.exp(reach), count, None, len(sums), spread, degrees
    )


def _too_few(unit: UnitWord) -> str:
    return f"an interval needs {MINIMUM[unit]} {unit} at each load level"


def _jackknife(
    parts: Sequence[NDArray[Any]], total: NDArray[Any], powers: NDArray[Any], likeness: Sequence[Sequence[float]]
) -> tuple[float, float] | None:
    """Variance of the logarithm, and its degrees of freedom, over strata that are added up.

    None when nothing of a total is left without one of the units.
    """
    errors, freedom = [], []
    for part in parts:
        if not (part < total).all():
            return None
        left_out = _without_each(part, total, powers)
        mean = math.fsum(left_out) / len(left_out)
        size = len(left_out)
        variance = (size - 1) / size * math.fsum((value - mean) ** 2 for value in left_out)
        weights = part[:, 0].tolist()
        degrees = max(1.0, math.fsum(weights) ** 2 / math.fsum(weight**2 for weight in weights) - 1)
        errors.append(math.sqrt(variance))
        freedom.append(degrees)
    return _together(errors, freedom, likeness)


def _together(
    errors: Sequence[float], freedom: Sequence[float], likeness: Sequence[Sequence[float]]
) -> tuple[float, float]:
    """Variance of the strata's sum and its degrees of freedom (Satterthwaite; squares go together by likeness²)."""
    every = range(len(errors))
    added = [errors[k] * math.fsum(likeness[k][m] * errors[m] for m in every) for k in every]
    whole = math.fsum(added)
    if whole <= 0:
        return 0.0, math.fsum(freedom)
    uncertain = [part / math.sqrt(of) for part, of in zip(added, freedom, strict=True)]
    spread = math.fsum(
        likeness[k][m] ** 2 / (likeness[k][k] * likeness[m][m]) * uncertain[k] * uncertain[m]
        for k in every
        for m in every
    )
    return whole, whole**2 / spread


def _without_each(part: NDArray[Any], total: NDArray[Any], powers: NDArray[Any]) -> list[float]:
    """By how much the logarithm changes without each unit.

    Not log(total - unit): the last digits of numpy's logarithm and of a matrix product differ between processors, and
    the small differences that the variance is made of would show it.
    """
    shares, signs = (part / total).tolist(), powers.tolist()
    return [math.fsum(sign * math.log1p(-share) for sign, share in zip(signs, row, strict=True)) for row in shares]


def batched_interval(sums: NDArray[Any], signs: Sequence[float]) -> Interval:
    """`ratio_interval` of rows in order of time that are independent of one another, neighbours merged."""
    import numpy as np

    batch = batches(len(sums))
    merged = [np.bincount(batch, weights=column) for column in sums.T]
    return ratio_interval(np.stack(merged, axis=1), signs, count=len(sums))
