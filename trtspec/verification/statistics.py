"""Two-sample tests of counts, their corrections and their power. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trtspec.verification.cells import Cell

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "POWER",
    "ChiSquare",
    "Noise",
    "chi_square",
    "chi_square_p",
    "detectable_distance",
    "holm",
    "mcnemar",
    "total_variation",
    "variation_noise",
]

POWER = 0.9
"""with which a difference of the size that is told would be found"""
_DRAWS = 2000


@dataclass(frozen=True)
class ChiSquare:
    """A statistic with its degrees of freedom; without any, both samples hold one single cell."""

    statistic: float
    degrees: int

    @property
    def p(self) -> float:
        """Probability of so large a statistic when there is no difference; 1 without degrees of freedom."""
        return chi_square_p(self.statistic, self.degrees)

    def __add__(self, other: ChiSquare) -> ChiSquare:
        return ChiSquare(self.statistic + other.statistic, self.degrees + other.degrees)


def chi_square_p(statistic: float, degrees: int) -> float:
    """Upper tail of the chi-square distribution."""
    from scipy.special import chdtrc

    return float(chdtrc(degrees, statistic)) if degrees > 0 else 1.0


def chi_square(cells: Sequence[Cell]) -> ChiSquare:
    """The two-sample test of homogeneity (Pearson).

    **Formula:** Σ (observed - expected)² / expected over cells and arms, expected = the cell's samples of both arms
    times the arm's share of all samples; degrees of freedom: cells - 1.
    """
    sizes = sum(cell.baseline for cell in cells), sum(cell.speculative for cell in cells)
    if len(cells) < 2 or not all(sizes):
        return ChiSquare(0.0, 0)
    terms = []
    for cell in cells:
        for observed, size in zip((cell.baseline, cell.speculative), sizes, strict=True):
            expected = cell.total * size / sum(sizes)
            terms.append((observed - expected) ** 2 / expected)
    return ChiSquare(math.fsum(terms), len(cells) - 1)


def holm(values: Sequence[float]) -> list[float]:
    """p values adjusted for being several, in the same order (Holm 1979): reject those at most the significance."""
    order = sorted(range(len(values)), key=values.__getitem__)
    adjusted, largest = [0.0] * len(values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - rank) * values[index]))
        adjusted[index] = largest
    return adjusted


def total_variation(cells: Sequence[Cell]) -> float | None:
    """**Formula:** ½ Σ |share in one arm - share in the other| over cells, from 0 to 1; None without samples."""
    first, second = sum(cell.baseline for cell in cells), sum(cell.speculative for cell in cells)
    if not first or not second:
        return None
    return 0.5 * math.fsum(abs(cell.baseline / first - cell.speculative / second) for cell in cells)


@dataclass(frozen=True)
class Noise:
    """What the distance is without any difference: its mean, and what 95 % of such samples stay below."""

    mean: float
    p95: float


def variation_noise(prompts: Sequence[Sequence[Cell]], seed: int) -> tuple[list[Noise | None], Noise | None]:
    """The noise of each prompt's distance and of their mean, by dividing the same samples at random (2000 times)."""
    import numpy as np

    rng = np.random.default_rng(seed)
    drawn = [_drawn(cells, rng) for cells in prompts]
    known = [values for values in drawn if values is not None]
    each = [None if values is None else _noise(values) for values in drawn]
    return each, _noise(np.mean(known, axis=0)) if known else None


def _drawn(cells: Sequence[Cell], rng: np.random.Generator) -> NDArray[Any] | None:
    import numpy as np

    totals = np.array([cell.total for cell in cells], dtype=np.int64)
    first = sum(cell.baseline for cell in cells)
    second = int(totals.sum()) - first
    if not first or not second:
        return None
    divided = rng.multivariate_hypergeometric(totals, first, size=_DRAWS)
    distances: NDArray[Any] = 0.5 * np.abs(divided / first - (totals - divided) / second).sum(axis=1)
    return distances


def _noise(values: NDArray[Any]) -> Noise:
    import numpy as np

    return Noise(float(np.mean(values)), float(np.quantile(values, 0.95)))


def detectable_distance(sizes: Sequence[tuple[int, int]], degrees: int, significance: float) -> float | None:
    """Smallest total variation distance that the chi-square test would find with `POWER`; None when there is none.

    `sizes` are the samples of each arm for every prompt that is added up, each of them bent by this distance d. Of all
    ways to be d apart the hardest to see moves every cell in proportion; it has noncentrality λ = Σ 4 d² n m / (n + m)
    (Cauchy and Schwarz: Σ δ² / p ≥ (Σ |δ|)²), any other has more. d is where that λ is enough.
    """
    from scipy.optimize import brentq
    from scipy.special import chdtri, chndtr

    weight = math.fsum(4 * n * m / (n + m) for n, m in sizes if n and m)
    if degrees < 1 or not weight:
        return None
    limit = float(chdtri(degrees, significance))
    enough = brentq(lambda value: chndtr(limit, degrees, value) - (1 - POWER), 0.0, 1e4)
    distance = math.sqrt(float(enough) / weight)
    return distance if distance < 1 else None


def mcnemar(only_first: int, only_second: int) -> float:
    """Two-sided exact p value of McNemar's test: of the pairs that differ, does one side win more often than half?"""
    count, smaller = only_first + only_second, min(only_first, only_second)
    tail = sum(math.comb(count, k) for k in range(smaller + 1))
    return min(1.0, 2 * tail / (1 << count))
