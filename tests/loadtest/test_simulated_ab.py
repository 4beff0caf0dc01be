"""A smaller version of benchmarks/simulated_ab.py: seeded, so that it either always passes or never."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.simulated_ab import WORLDS, WRONG_DESIGN, Simulation, World, simulate
from trtspec.loadtest.pairing import pair_rows
from trtspec.loadtest.speedups import headline

RUNS = 300
NAMED = {world.name: world for world in WORLDS}
# binomial noise of 300 runs is 1.3 %
LOWEST, HIGHEST = 0.92, 0.98


@pytest.mark.parametrize(
    "name",
    [
        "plain",
        "20 prompts",
        "noise that lasts",
        "heavy tails",
        "drift and lasting noise",
        "blocks at concurrency 8",
        "8 blocks at concurrency 8",
        "blocks, drift, heavy tails",
    ],
)
def test_intervals_hold_the_truth_as_often_as_they_say(name: str) -> None:
    found = simulate(NAMED[name], RUNS, seed=7)
    assert LOWEST <= found.coverage <= HIGHEST, found
    assert abs(found.bias) < 0.01, found


@pytest.mark.parametrize(
    "name", ["A/A", "A/A, lasting noise", "A/A, heavy tails, drift", "A/A, blocks at concurrency 8"]
)
def test_the_same_server_twice_is_seldom_called_different(name: str) -> None:
    found = simulate(NAMED[name], RUNS, seed=2)
    assert found.leaves_one_out <= 0.085, found


def test_an_effect_of_6_percent_is_found_with_300_prompts() -> None:
    found = simulate(NAMED["plain"], RUNS, seed=3)
    assert found.faster >= 0.90, found
    assert found.slower == 0


def test_drift_biases_nothing_in_this_design_and_everything_in_the_wrong_one() -> None:
    assert abs(simulate(NAMED["drift"], RUNS, seed=4).bias) < 0.004
    wrong = simulate(NAMED[WRONG_DESIGN], RUNS, seed=4)
    assert wrong.bias < -0.04
    assert wrong.coverage < 0.3


def test_repeats_of_the_same_prompts_are_no_new_evidence() -> None:
    """60 prompts five times are as sure as 60 prompts once, not as 300."""
    found = simulate(NAMED["60 prompts, each 5 times"], RUNS, seed=6)
    assert LOWEST <= found.coverage <= HIGHEST, found
    assert found.width > 0.08
    assert simulate(NAMED["160 prompts, each twice in blocks"], RUNS, seed=6).coverage >= LOWEST


def test_a_run_that_stops_itself_does_not_flatter_itself() -> None:
    found = simulate(NAMED["stops by itself at 8 %"], 150, seed=5)
    assert found.coverage >= 0.90, found
    assert found.width <= 0.08
    assert 90 <= found.pairs < 400


def test_the_simulations_tables_are_what_they_seem() -> None:
    """Pairs, arms and times of a world: ABBA, both arms of a prompt with the same tokens."""
    simulation = Simulation(World("small", prompts=6))
    table = simulation.table(np.random.default_rng(1))
    pairs = pair_rows(table)
    assert len(pairs) == 6
    assert (table.tokens[pairs.baseline] == table.tokens[pairs.speculative]).all()
    first = table.arm[np.argsort(table.start_ns)][::2]
    assert (np.diff(first) != 0).all()
    assert headline(pairs).count == 6
