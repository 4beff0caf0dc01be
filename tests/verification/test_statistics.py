"""The tests against scipy's, and against worlds whose truth is known."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from scipy import stats

from trtspec.verification.cells import Cell, count_cells
from trtspec.verification.statistics import (
    POWER,
    ChiSquare,
    chi_square,
    detectable_distance,
    holm,
    mcnemar,
    total_variation,
    variation_noise,
)


def cells(baseline: list[int], speculative: list[int]) -> list[Cell]:
    return [Cell((at,), *pair) for at, pair in enumerate(zip(baseline, speculative, strict=True))]


def test_chi_square_is_scipys() -> None:
    counts = [30, 50, 20], [45, 40, 65]
    found = chi_square(cells(*counts))
    expected = stats.chi2_contingency(np.array(counts), correction=False)
    assert found.statistic == pytest.approx(expected.statistic)
    assert found.degrees == expected.dof
    assert found.p == pytest.approx(expected.pvalue)


def test_one_cell_or_one_arm_tells_nothing() -> None:
    assert chi_square(cells([10], [20])) == ChiSquare(0.0, 0)
    assert chi_square(cells([10, 5], [0, 0])).p == 1


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]


def test_total_variation() -> None:
    assert total_variation(cells([50, 50], [50, 50])) == 0
    assert total_variation(cells([100, 0], [0, 10])) == 1
    assert total_variation(cells([60, 40], [40, 60])) == pytest.approx(0.2)
    assert total_variation(cells([1], [0])) is None


def test_the_noise_of_the_distance_is_what_equal_arms_show() -> None:
    rng = np.random.default_rng(1)
    share = [0.4, 0.3, 0.2, 0.1]
    drawn = [cells(*(rng.multinomial(200, share).tolist() for _ in range(2))) for _ in range(200)]
    seen = [total_variation(one) or 0.0 for one in drawn]
    each, common = variation_noise(drawn[:3], 1)
    assert common is not None
    assert common.mean == pytest.approx(float(np.mean(seen)), rel=0.1)
    assert each[0] is not None
    assert np.mean([value <= each[0].p95 for value in seen]) == pytest.approx(0.95, abs=0.05)


SHARES = (0.35, 0.25, 0.15, 0.1, 0.05, 0.04, 0.03, 0.02, 0.01)


def samples(rng: random.Random, shares: tuple[float, ...], count: int) -> list[list[int]]:
    return [rng.choices(range(len(shares)), shares, k=3) for _ in range(count)]


def test_equal_arms_are_rejected_as_often_as_said() -> None:
    rng = random.Random(2)
    found = [chi_square(count_cells(samples(rng, SHARES, 150), samples(rng, SHARES, 150))).p for _ in range(400)]
    assert sum(p <= 0.05 for p in found) / 400 == pytest.approx(0.05, abs=0.03)
    assert sum(p <= 0.01 for p in found) <= 12


def test_the_distance_that_is_promised_is_found() -> None:
    rng = np.random.default_rng(3)
    share = np.array([0.3, 0.25, 0.2, 0.15, 0.1])
    distance = detectable_distance([(400, 400)], 4, 0.01)
    assert distance is not None
    # the hardest to see: every cell moved in proportion
    bent = share * (1 + 2 * distance * np.array([1, -1, 1, -1, 0]) / 0.9)
    bent /= bent.sum()
    moved = float(np.abs(bent - share).sum() / 2)
    assert moved == pytest.approx(distance, rel=0.15)
    found = [chi_square(cells(*(rng.multinomial(400, s).tolist() for s in (share, bent)))).p for _ in range(300)]
    assert sum(p <= 0.01 for p in found) / 300 > POWER - 0.08


def test_more_samples_see_more_and_none_see_nothing() -> None:
    few, many = (detectable_distance([(n, n)], 9, 0.01) or math.inf for n in (100, 10_000))
    assert many == pytest.approx(few / 10)
    assert detectable_distance([(3, 3)], 9, 0.01) is None
    assert detectable_distance([(0, 5)], 9, 0.01) is None
    assert detectable_distance([(100, 100)], 0, 0.01) is None


@pytest.mark.parametrize(("first", "second"), [(0, 0), (5, 5), (1, 9), (12, 2), (0, 300)])
def test_mcnemar_is_the_sign_test(first: int, second: int) -> None:
    expected = 1.0 if first + second == 0 else stats.binomtest(first, first + second, 0.5).pvalue
    assert mcnemar(first, second) == pytest.approx(min(1.0, expected))
