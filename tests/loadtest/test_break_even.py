from __future__ import annotations

import math

import numpy as np
import pytest

from trtspec.loadtest.break_even import BreakEven, Point, break_even
from trtspec.loadtest.intervals import Interval


def point(at: float, speedup: float, spread: float | None = 0.01, degrees: float = 20) -> Point:
    low, high = (None, None) if spread is None else (speedup * math.exp(-2 * spread), speedup * math.exp(2 * spread))
    return at, Interval(speedup, low, high, 60, spread=spread, degrees=degrees)


def test_lies_between_the_levels_that_it_falls_between() -> None:
    """Halfway in the logarithms: 1.1 at 1, 1/1.1 at 4."""
    found = break_even([point(1, 1.1), point(4, 1 / 1.1)])
    assert found.at == pytest.approx(2.0)
    assert found.low is not None
    assert found.high is not None
    assert 1.5 < found.low < 2 < found.high < 2.7
    assert found.crossing == 1.0
    assert found.interval_reason is None


def test_a_wider_speed_up_makes_a_wider_interval() -> None:
    def width(spread: float) -> float:
        found = break_even([point(1, 1.3, spread), point(16, 0.8, spread)])
        assert found.low is not None
        assert found.high is not None
        return found.high / found.low

    assert width(0.05) > 1.5 * width(0.02) > 1.5


def test_few_units_make_long_tails() -> None:
    many = break_even([point(1, 1.2), point(64, 0.9)])
    few = break_even([point(1, 1.2, degrees=2), point(64, 0.9, degrees=2)])
    assert many.low is not None
    assert few.low is not None
    assert few.low < many.low


@pytest.mark.parametrize(
    ("speedups", "words"),
    [
        ([1.2], "needs at least two"),
        ([1.3, 1.2], "not slower at any measured concurrency (up to 2)"),
        ([0.9, 0.8], "not faster at any measured concurrency (from 1)"),
        ([0.9, 1.2], "does not fall steadily"),
    ],
)
def test_no_break_even_has_a_reason(speedups: list[float], words: str) -> None:
    found = break_even([point(2**i, s) for i, s in enumerate(speedups)])
    assert found.at is None
    assert found.reason is not None
    assert words in found.reason


def test_an_end_outside_the_range_is_open() -> None:
    """Faster everywhere, but the last level is near 1: the crossing may be just below it or anywhere above."""
    found = break_even([point(1, 1.3), point(8, 1.1), point(32, 1.005)])
    assert found.at is None
    assert found.low is not None
    assert 16 < found.low < 32
    assert found.high is None
    assert found.interval_reason == "it may lie above 32, outside what was measured"
    assert found.crossing is not None
    assert 0.1 < found.crossing < 0.5
    clearly = break_even([point(1, 1.3), point(8, 1.2)])
    assert (clearly.low, clearly.high, clearly.crossing) == (None, None, 0.0)


def test_levels_that_share_their_prompts_are_off_together() -> None:
    """Errors in the same direction move the crossing by more than errors that cancel."""
    points = [point(1, 1.3, 0.05), point(16, 1 / 1.3, 0.05)]

    def width(shared: float) -> float:
        found = break_even(points, [[1.0, shared], [shared, 1.0]])
        assert found.low is not None
        assert found.high is not None
        return math.log(found.high / found.low)

    assert width(1.0) == pytest.approx(math.sqrt(2) * width(0.0), rel=0.1)
    assert width(0.0) < width(0.5) < width(1.0)
    assert break_even(points, [[1.0, 0.0], [0.0, 1.0]]) == break_even(points)


def test_a_level_of_repeated_prompts_is_as_alike_as_one_without() -> None:
    """Its own error already holds the repeats; only how levels go together counts."""
    points = [point(1, 1.1, 0.05), point(4, 1 / 1.1, 0.05)]
    assert break_even(points, [[1.0, 1.0], [1.0, 4.0]]) == break_even(points, [[1.0, 0.5], [0.5, 1.0]])


def test_levels_without_intervals_have_an_estimate_only() -> None:
    found = break_even([point(1, 1.2, None), point(4, 0.9, None)])
    assert found.at is not None
    assert (found.low, found.high) == (None, None)
    assert found.interval_reason == "needs an interval at two concurrencies or more"


def test_the_same_points_and_seed_give_the_same_interval() -> None:
    points = [point(1, 1.2), point(4, 0.9)]
    assert break_even(points, seed=3) == break_even(points, seed=3) != break_even(points, seed=4)


def test_json() -> None:
    assert BreakEven(2.0, None, 1.5, None, 0.9, "open").interval_json() == {
        "low": 1.5,
        "high": None,
        "confidence": 0.95,
        "crossing": 0.9,
        "reason": "open",
    }


def test_the_interval_holds_the_crossing_as_often_as_it_says() -> None:
    """Four levels of ten blocks each; the true crossing lies at 2^3.2."""
    rng = np.random.default_rng(3)
    truth, hits, runs = {1: 0.30, 4: 0.15, 16: -0.10, 64: -0.40}, 0, 150
    crossing = 2 ** (2 + 2 * 0.15 / 0.25)
    for seed in range(runs):
        points = []
        for at, middle in truth.items():
            blocks = rng.normal(middle, 0.2, 10)
            points.append(point(at, math.exp(blocks.mean()), blocks.std(ddof=1) / math.sqrt(10), 9))
        found = break_even(points, seed=seed)
        hits += (found.low or 0) <= crossing <= (found.high or math.inf)
    assert 0.92 <= hits / runs <= 0.985
