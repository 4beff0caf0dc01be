"""The race as a pure function: worlds whose truth is known, rung after rung, without a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from trtspec.loadtest.intervals import Interval, ratio_interval, unknown
from trtspec.tuning.race import RUNGS, Standing, comparisons, corrected, decide, rounds_of_rung

TOLERANCE = 0.02


@dataclass
class World:
    """Candidates with a true speed; a unit of prompts is hard or easy for all of them alike, and noisy for each."""

    speeds: Mapping[str, float]
    rng: np.random.Generator
    noise: float = 0.05
    units_per_round: int = 8

    def measure(self, rounds: int, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Times of each candidate, a unit each."""
        count = rounds * self.units_per_round
        shared = self.rng.lognormal(0, 0.5, count)
        return {name: shared / self.speeds[name] * self.rng.lognormal(0, self.noise, count) for name in names}


def against(first: NDArray[Any], second: NDArray[Any]) -> Interval:
    """How many times faster the second is on the same units."""
    work = np.ones(len(first))
    return ratio_interval(np.stack([first, work, second, work], axis=1))


@dataclass
class Finish:
    winner: str
    dropped: dict[str, int]
    units: dict[str, int]


def race(world: World) -> Finish:
    """All rungs, as the search goes through them."""
    racing = [name for name in world.speeds if name != "baseline"]
    times: dict[str, NDArray[Any]] = {name: np.zeros(0) for name in world.speeds}
    dropped: dict[str, int] = {}
    winner = ""
    for rung in range(RUNGS):
        for name, values in world.measure(rounds_of_rung(rung), ["baseline", *racing]).items():
            times[name] = np.concatenate([times[name], values])
        speedups = {name: against(times["baseline"], times[name]).estimate or 0 for name in racing}
        speedups["baseline"] = 1.0
        leader = max(speedups, key=lambda name: speedups[name])
        standings = [
            Standing(name, value, place, None if name == leader else against(times[leader], times[name]))
            for place, (name, value) in enumerate(sorted(speedups.items()))
        ]
        decision = decide(standings, tolerance=TOLERANCE, tests=comparisons(len(world.speeds) - 1))
        dropped.update({name: rung for name in decision.dropped if name not in dropped})
        racing = [name for name in racing if name not in decision.dropped]
        winner = decision.winner or ""
        if decision.settled:
            break
    return Finish(winner, dropped, {name: len(values) for name, values in times.items()})


SPEEDS = {"baseline": 1.0, "1": 1.2, "2": 1.4, "3": 1.55, "4": 1.6, "6": 1.5, "8": 1.1, "12": 0.7}


def test_the_best_is_found_and_never_dropped_by_noise() -> None:
    finishes = [race(World(SPEEDS, np.random.default_rng(seed))) for seed in range(200)]
    assert sum("4" in finish.dropped for finish in finishes) <= 4
    assert sum(finish.winner == "4" for finish in finishes) >= 194


def test_time_goes_where_it_matters() -> None:
    finishes = [race(World(SPEEDS, np.random.default_rng(seed))) for seed in range(50)]

    def mean(name: str) -> float:
        return float(np.mean([finish.units[name] for finish in finishes]))

    assert mean("12") <= 9
    assert mean("8") < mean("6") < mean("4")
    # all candidates to the end would be this much
    assert sum(map(mean, SPEEDS)) < 0.7 * len(SPEEDS) * mean("4")


def test_equal_candidates_are_not_told_apart_by_chance() -> None:
    speeds = {"baseline": 1.0, **{str(length): 1.5 for length in range(1, 8)}}
    finishes = [race(World(speeds, np.random.default_rng(seed))) for seed in range(200)]
    lost = sum(any(name != "baseline" for name in finish.dropped) for finish in finishes)
    assert lost <= 0.1 * len(finishes)


def test_where_no_length_pays_the_baseline_wins() -> None:
    speeds = {"baseline": 1.0, "2": 0.9, "4": 0.8, "8": 0.5}
    finish = race(World(speeds, np.random.default_rng(3)))
    assert finish.winner == "baseline"
    assert set(finish.dropped) == {"2", "4", "8"}


def test_heavy_noise_keeps_everybody() -> None:
    finish = race(World({"baseline": 1.0, "2": 1.01, "4": 1.02}, np.random.default_rng(5), noise=1.0))
    assert not finish.dropped


def interval(estimate: float, spread: float) -> Interval:
    return Interval(estimate, None, None, 100, units=100, spread=spread, degrees=99.0)


def test_of_those_that_are_as_good_the_shortest_wins() -> None:
    standings = [
        Standing("8", 1.51, 8),
        Standing("2", 1.505, 2, interval(0.997, 0.001)),
        Standing("4", 1.508, 4, interval(0.999, 0.001)),
    ]
    decision = decide(standings, tolerance=TOLERANCE, tests=1)
    assert (decision.winner, decision.settled, decision.dropped) == ("2", True, {})
    assert decide(standings, tolerance=0.0001, tests=1).winner == "8"


def test_without_an_interval_nobody_goes_and_nothing_is_settled() -> None:
    standings = [Standing("4", 1.5, 4), Standing("2", 0.1, 2, unknown("too few"))]
    decision = decide(standings, tolerance=TOLERANCE, tests=1)
    assert decision.kept == ("4", "2")
    assert not decision.settled
    assert decision.winner == "4"


def test_the_last_one_left_is_settled() -> None:
    decision = decide([Standing("4", 1.5, 4), Standing("2", 1.0, 2, interval(0.6, 0.01))], tolerance=0.02, tests=40)
    assert decision.settled
    assert "times as fast as 4" in decision.dropped["2"]


def test_more_tests_ask_for_more() -> None:
    ends = [*corrected(interval(0.95, 0.02), 100), *corrected(interval(0.95, 0.02), 1)]
    wide_low, wide_high, low, high = (end or 0.0 for end in ends)
    assert 0 < wide_low < low < 0.95 < high < wide_high


@pytest.mark.parametrize("rung", range(1, 6))
def test_each_rung_doubles_what_there_is(rung: int) -> None:
    assert rounds_of_rung(rung) == sum(map(rounds_of_rung, range(rung)))
