"""How much faster, with an interval: a ratio of sums over pairs and its bootstrap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CONFIDENCE", "Cost", "Interval", "speedup"]

CONFIDENCE = 0.95
RESAMPLES = 4000
# fewer pairs say too little about how pairs differ
MINIMUM = 5


@dataclass(frozen=True)
class Cost:
    """One pair: time over work (seconds over tokens, or seconds over 1) in both arms.

    `stratum` is what pairs are resampled within: the concurrency.
    """

    baseline_time: float
    baseline_work: float
    speculative_time: float
    speculative_work: float
    stratum: int = 0


@dataclass(frozen=True)
class Interval:
    """An estimate and its interval; None with a reason where it cannot be told."""

    estimate: float | None
    low: float | None
    high: float | None
    count: int
    reason: str | None = None


def speedup(costs: Sequence[Cost], *, seed: int = 1, unit: str = "pairs") -> Interval:
    """How many times faster the speculative arm is, with its 95 % interval.

    **Formula:** (Σ baseline time / Σ baseline work) / (Σ speculative time / Σ speculative work): a ratio of sums, so
    long answers weigh more, as they do on a clock. The interval is the bias-corrected and accelerated (BCa) bootstrap
    over pairs, which are drawn whole, so that what makes a prompt slow in both arms cancels; pairs of different
    concurrencies are resampled apart. `unit` names what a cost is of. The same pairs and seed give the same interval.
    """
    import numpy as np

    if not costs:
        return Interval(None, None, None, 0, "no pair has this in both arms")
    table = np.array(
        [[c.baseline_time, c.baseline_work, c.speculative_time, c.speculative_work] for c in costs], dtype=float
    )
    total = table.sum(axis=0)
    if (total <= 0).any():
        return Interval(None, None, None, len(costs), "a total is zero")
    estimate = float(_ratio(total))
    strata = np.array([c.stratum for c in costs])
    if min(np.unique(strata, return_counts=True)[1]) < MINIMUM:
        return Interval(estimate, None, None, len(costs), f"an interval needs {MINIMUM} {unit} at each concurrency")
    low, high = _bca(table, strata, estimate, seed)
    return Interval(estimate, low, high, len(costs))


def _ratio(sums: NDArray[Any]) -> NDArray[Any]:
    baseline: NDArray[Any] = sums[..., 0] / sums[..., 1]
    result: NDArray[Any] = baseline / (sums[..., 2] / sums[..., 3])
    return result


def _resampled_sums(table: NDArray[Any], strata: NDArray[Any], seed: int) -> NDArray[Any]:
    """Column sums of every resample, [RESAMPLES, 4]."""
    import numpy as np

    sums = np.zeros((RESAMPLES, table.shape[1]))
    for position, stratum in enumerate(np.unique(strata)):
        rows = table[strata == stratum]
        sums += _draws(seed, position, len(rows)).astype(float) @ rows
    return sums


@lru_cache(maxsize=16)
def _draws(seed: int, position: int, size: int) -> NDArray[Any]:
    """How often each of `size` rows is in each resample, [RESAMPLES, size]; every metric is resampled alike."""
    import numpy as np

    rng = np.random.default_rng([seed, position])
    return rng.multinomial(size, np.full(size, 1 / size), size=RESAMPLES).astype(np.float32)


def _bca(table: NDArray[Any], strata: NDArray[Any], estimate: float, seed: int) -> tuple[float, float]:
    """Limits of the BCa interval (Efron 1987)."""
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):
        replicates = _ratio(_resampled_sums(table, strata, seed))
        left_out = _ratio(table.sum(axis=0) - table)
    replicates = replicates[np.isfinite(replicates)]
    spread = left_out[np.isfinite(left_out)]
    tail = (1 - CONFIDENCE) / 2
    limits = [_adjusted(rank, replicates, estimate, spread) for rank in (tail, 1 - tail)]
    low, high = (float(value) for value in np.quantile(replicates, limits))
    return min(low, estimate), max(high, estimate)


def _adjusted(rank: float, replicates: NDArray[Any], estimate: float, left_out: NDArray[Any]) -> float:
    normal = NormalDist()
    count = len(replicates)
    # ties count half, so that equal pairs are no bias; the ends are kept away from infinity
    below = ((replicates < estimate).sum() + (replicates <= estimate).sum()) / 2
    bias = normal.inv_cdf(min(max(float(below) / count, 1 / count), 1 - 1 / count))
    away = left_out.mean() - left_out
    scale = float((away**2).sum()) ** 1.5
    acceleration = float((away**3).sum()) / (6 * scale) if scale > 0 else 0.0
    shifted = bias + normal.inv_cdf(rank)
    return normal.cdf(bias + shifted / (1 - acceleration * shifted))
