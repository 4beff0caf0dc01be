"""When the requests of a load level are due."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from statistics import mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trtspec.errors import UsageError
from trtspec.loadtest.arrivals import ARRIVALS, Arrivals, Traffic, closed_loop, open_loop, parse_profile, schedule


def times(traffic: Traffic, count: int | None = 2000, seed: int = 1) -> list[float]:
    return schedule(traffic, random.Random(seed), count=count)


def gaps(traffic: Traffic) -> list[float]:
    return [later - earlier for earlier, later in pairwise(times(traffic, 20_000))]


def test_constant_is_a_grid() -> None:
    assert times(open_loop(4, "constant"), 5) == [0, 0.25, 0.5, 0.75, 1]


@pytest.mark.parametrize(
    ("traffic", "variation"),
    [
        (open_loop(5, "poisson"), 1.0),
        (open_loop(5, "gamma", burstiness=0.25), 2.0),
        (open_loop(5, "gamma", burstiness=4), 0.5),
    ],
)
def test_gaps_have_the_mean_of_the_rate_and_the_spread_of_the_distribution(traffic: Traffic, variation: float) -> None:
    found = gaps(traffic)
    assert mean(found) == pytest.approx(0.2, rel=0.05)
    assert stdev(found) / mean(found) == pytest.approx(variation, rel=0.08)


def test_bursts_come_at_once_at_the_same_mean_rate() -> None:
    tally = Counter(times(open_loop(10, "burst", burst=20), 100))
    assert tally == {0.0: 20, 2.0: 20, 4.0: 20, 6.0: 20, 8.0: 20}


@pytest.mark.parametrize("arrivals", ARRIVALS)
def test_the_seed_decides_and_the_rate_only_stretches(arrivals: Arrivals) -> None:
    one, same, fast = times(open_loop(2, arrivals)), times(open_loop(2, arrivals)), times(open_loop(8, arrivals))
    assert one == same
    assert [time / 4 for time in one] == pytest.approx(fast)
    if arrivals in {"poisson", "gamma"}:
        assert one != times(open_loop(2, arrivals), seed=2)


def test_steps_and_ramps_follow_their_rates() -> None:
    found = times(Traffic("steps", 5, "constant", segments=parse_profile("2:30,2..10:60,10/s:30s")), None)
    assert len(found) == pytest.approx(2 * 30 + 6 * 60 + 10 * 30, abs=1)
    assert found[-1] <= 120
    per_ten = Counter(int(time // 10) for time in found)
    assert [per_ten[i] for i in range(12)] == pytest.approx([20] * 3 + [27, 40, 53, 67, 80, 93] + [100] * 3, abs=2)


def test_a_ramp_may_begin_at_nothing() -> None:
    (ramp,) = parse_profile("0..4:10")
    found = times(Traffic("steps", 2, "constant", segments=(ramp,)), None)
    assert len(found) == 21
    assert found[1] == pytest.approx((2 * 1 / 0.4) ** 0.5)


@given(
    st.lists(st.tuples(st.floats(0, 50), st.floats(0, 50), st.floats(0.5, 20)), min_size=1, max_size=4), st.integers()
)
def test_a_schedule_never_goes_back_and_ends_with_its_profile(
    parts: list[tuple[float, float, float]], seed: int
) -> None:
    text = ",".join(f"{a:.2f}..{b + 0.1:.2f}:{s:.2f}" for a, b, s in parts)
    found = times(Traffic("steps", 1, segments=parse_profile(text)), None, seed)
    assert found == sorted(found)
    assert not found or 0 <= found[0] <= found[-1] <= sum(round(s, 2) for _, _, s in parts) + 1e-6


@pytest.mark.parametrize("text", ["", "5", "a:3", "5:0", "0:10", "5..:3", "1e9:3", "2:30,,3:1", "-2:30"])
def test_what_is_no_profile(text: str) -> None:
    with pytest.raises(UsageError, match="profile"):
        parse_profile(text)


def test_a_trace_is_replayed_faster() -> None:
    assert times(Traffic("trace", 2.0, times=(0.0, 1.0, 5.0)), None) == [0.0, 0.5, 2.5]
    assert times(Traffic("trace", 1.0, times=(0.0, 1.0, 5.0)), 2) == [0.0, 1.0]


def test_the_rate_at_a_time() -> None:
    steps = Traffic("steps", 5, segments=parse_profile("2:30,2..10:60,4:30"))
    assert [steps.rate_at(at) for at in (0, 30, 60, 90, 91, 500)] == pytest.approx([2, 2, 6, 10, 4, 4])
    assert open_loop(5).rate_at(1e6) == 5
    assert Traffic("trace", 2.0, times=(0.0, 1.0, 4.0)).rate_at(0) == 1.5
    assert Traffic("trace", 1.0, times=(3.0,)).rate_at(0) == 1.0


def test_labels_tell_levels_apart() -> None:
    assert closed_loop(4).label == "concurrency 4"
    assert [open_loop(2.5, kind).label for kind in ARRIVALS] == [f"{kind} 2.5/s" for kind in ARRIVALS]
    assert Traffic("trace", 1.0).label == "trace"
    assert Traffic("steps", 3.0).label == "steps"
    assert (closed_loop(4).concurrency, open_loop(5).concurrency) == (4, 1)
    assert Traffic("poisson", 5, in_flight=32).concurrency == 32
