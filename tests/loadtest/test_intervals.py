from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from trtspec.loadtest.intervals import (
    AB_SIGNS,
    RATE_SIGNS,
    Interval,
    Strata,
    batched_interval,
    batches,
    ratio_interval,
    row,
    student_quantile,
)


def costs(*times: tuple[float, float]) -> NDArray[Any]:
    """Units of one request each: (baseline time, speculative time)."""
    return np.array([[baseline, 1.0, speculative, 1.0] for baseline, speculative in times])


def apart(levels: list[int]) -> Strata:
    """Levels that share nothing."""
    return Strata(np.array(levels), np.eye(max(levels) + 1))


def test_ratio_of_sums_not_mean_of_ratios() -> None:
    found = ratio_interval(costs((100, 50), (1, 2), (1, 2), (1, 2), (1, 2)))
    assert found.estimate == pytest.approx(104 / 58)
    assert found.count == found.units == 5


def test_the_interval_of_equal_units_is_the_t_interval_of_the_logarithm() -> None:
    """Where all baseline times are equal and differences small, the jackknife is the plain standard error."""
    rng = np.random.default_rng(1)
    speculative = 1 + 0.001 * rng.normal(size=12)
    found = ratio_interval(costs(*((1.0, value) for value in speculative)))
    error = speculative.std(ddof=1) / math.sqrt(12) / speculative.mean()
    assert found.spread == pytest.approx(error, rel=1e-3)
    assert found.degrees == pytest.approx(11)
    assert found.low is not None
    assert found.estimate is not None
    assert found.low == pytest.approx(found.estimate * math.exp(-2.200985 * error), rel=1e-6)


def test_unequal_units_count_as_fewer() -> None:
    even = ratio_interval(costs(*((1.0, 1 + 0.1 * (i % 3)) for i in range(10))))
    uneven = ratio_interval(costs(*((10.0 if i == 0 else 1.0, 1 + 0.1 * (i % 3)) for i in range(10))))
    assert even.degrees is not None
    assert uneven.degrees is not None
    assert uneven.degrees < even.degrees / 3


@pytest.mark.parametrize(("unit", "enough"), [("pairs", 5), ("blocks", 3)])
def test_too_few_units_have_an_estimate_and_no_interval(unit: Any, enough: int) -> None:
    few = ratio_interval(costs(*[(2, 1)] * (enough - 1)), unit=unit)
    assert (few.estimate, few.low, few.relative_width) == (2.0, None, None)
    assert few.reason == f"an interval needs {enough} {unit} at each load level"
    assert ratio_interval(costs(*[(2, 1)] * enough), unit=unit).low == pytest.approx(2.0)


def test_a_level_with_few_units_spoils_the_pooled_interval() -> None:
    strata = apart([0] * 8 + [1] * 2)
    assert ratio_interval(costs(*[(2, 1)] * 10), strata=strata).low is None


def test_levels_are_compared_within_not_between() -> None:
    """Twice as slow at the second level in both arms: no scatter."""
    strata = apart([0] * 6 + [1] * 6)
    pooled = ratio_interval(costs(*[(2, 1)] * 6, *[(4, 2)] * 6), strata=strata)
    assert pooled.low == pytest.approx(2.0)
    unlike = ratio_interval(costs(*[(2, 1)] * 6, *[(4, 4)] * 6), strata=strata)
    assert unlike.spread == pytest.approx(0.0, abs=1e-12)
    mixed = ratio_interval(costs(*[(2, 1)] * 6, *[(4, 4)] * 6))
    assert mixed.spread is not None
    assert mixed.spread > 0.05


def test_two_levels_with_the_same_prompts_tell_hardly_more_than_one() -> None:
    """The same units twice: independent levels would make the error √2 smaller, levels that are alike leave it."""
    rng = np.random.default_rng(3)
    once = costs(*((1.0, value) for value in rng.normal(1, 0.1, 40)))
    twice, levels = np.concatenate([once, once]), np.repeat([0, 1], 40)
    alone = ratio_interval(once)
    alike = ratio_interval(twice, strata=Strata(levels, np.ones((2, 2))))
    unlike = ratio_interval(twice, strata=Strata(levels, np.eye(2)))
    assert alone.spread is not None
    assert alike.spread == pytest.approx(alone.spread, rel=0.02)
    assert unlike.spread == pytest.approx(alone.spread / math.sqrt(2), rel=0.02)
    assert alike.degrees == pytest.approx(alone.degrees, rel=1e-6)
    assert unlike.degrees == pytest.approx(2 * (alone.degrees or 0), rel=1e-6)


def test_nothing_and_zero_totals_have_a_reason() -> None:
    assert ratio_interval(np.zeros((0, 4))).reason == "no pair has this in both arms"
    assert ratio_interval(np.zeros((0, 2)), RATE_SIGNS).reason == "nothing was measured"
    assert ratio_interval(costs((0, 1), (0, 1))).reason == "a total is zero"


def test_a_unit_that_is_everything_allows_no_interval() -> None:
    found = ratio_interval(np.array([[1.0, 1, 1, 1]] + [[0.0, 0, 0, 0]] * 5))
    assert (found.estimate, found.low) == (1.0, None)
    assert found.reason == "one of the pairs is nearly all there is"


@pytest.mark.parametrize("count", [0, 1, 79, 80, 81, 300, 1000, 1_000_000])
def test_batches_are_neighbours_of_nearly_equal_size(count: int) -> None:
    found = batches(count)
    assert len(found) == count
    sizes = np.bincount(found) if count else np.array([0])
    assert sizes.max() - sizes.min() <= max(1, 0.05 * sizes.max())
    assert len(sizes) == (max(1, count) if count < 80 else len(sizes))
    if count >= 80:
        assert 40 <= len(sizes) < 80
        assert (np.diff(found) >= 0).all()


def test_a_rate_is_amount_over_time() -> None:
    found = batched_interval(np.array([[10.0, 2.0]] * 100), RATE_SIGNS)
    assert found.estimate == pytest.approx(5.0)
    assert found.count == 100
    assert found.low == pytest.approx(5.0)


def test_swapping_the_arms_turns_the_interval_round() -> None:
    rng = np.random.default_rng(2)
    table = rng.lognormal(size=(30, 4))
    one, other = ratio_interval(table, AB_SIGNS), ratio_interval(table[:, [2, 3, 0, 1]], AB_SIGNS)
    assert one.low is not None
    assert other.high is not None
    # degrees of freedom come from the first column, so the widths may differ a little
    assert one.low * other.high == pytest.approx(1.0, rel=0.05)


def test_what_an_interval_says() -> None:
    found = Interval(1.0, 0.98, 1.03, 7)
    assert found.holds_one
    assert found.relative_width == pytest.approx(0.05)
    assert set(row(found)) == {"estimate", "low", "high", "confidence", "count", "units", "reason"}
    assert not Interval(1.1, 1.05, 1.15, 7).holds_one
    assert student_quantile(9) == pytest.approx(2.262157)
