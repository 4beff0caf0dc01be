from __future__ import annotations

import math
from typing import Any

import pytest

from tests.loadtest.fakes import make_pairs_of_records
from trtspec.loadtest.calibration import aa_sentence, detectable_effect, noise_floor, pairs_needed
from trtspec.loadtest.intervals import Interval
from trtspec.loadtest.summary import summarise

AA = {"options": {"aa": True}}


def speedup(estimate: float, spread: float, degrees: float = 1e6) -> Interval:
    reach = math.exp(1.96 * spread)
    return Interval(estimate, estimate / reach, estimate * reach, 300, None, 300, spread, degrees)


def test_the_smallest_effect_found_in_nine_of_ten_runs() -> None:
    """(1.95996 + 1.28155) standard errors."""
    assert detectable_effect(speedup(1.2, 0.01))["value"] == pytest.approx(math.expm1(3.24152 * 0.01), rel=1e-4)
    assert detectable_effect(Interval(1.2, None, None, 3, "few"))["reason"] == "few"


def test_the_noise_floor_of_a_run_is_its_own_scatter() -> None:
    found = noise_floor(speedup(1.5, 0.01), {}, {})
    assert found["value"] == pytest.approx(math.expm1(0.0195996), rel=1e-4)
    assert found["source"] == "this run's scatter"


def test_an_aa_run_that_shows_a_difference_puts_the_floor_there() -> None:
    assert noise_floor(speedup(1.005, 0.01), AA, {})["biased"] is False
    biased = noise_floor(speedup(1.05, 0.01), AA, {})
    assert biased["biased"] is True
    assert biased["value"] == pytest.approx(0.05)


def test_an_earlier_aa_runs_floor_is_carried_into_the_run() -> None:
    found = noise_floor(speedup(1.5, 0.01), {}, {"calibration": {"value": 0.03}})
    assert (found["value"], found["source"]) == (0.03, "an A/A run before")


def test_what_an_aa_run_says() -> None:
    good, bad = aa_sentence(speedup(1.004, 0.01)), aa_sentence(speedup(0.95, 0.01))
    assert good == (
        "A/A: the same server against itself shows no difference (1.004 times, 95 % interval 0.985–1.024); "
        "below 2.0% all is noise here."
    )
    assert "the setup favours one arm" in bad
    assert aa_sentence(Interval(1.0, None, None, 2)).startswith("A/A: too few pairs")


def test_an_aa_run_is_summarised_as_one() -> None:
    records = make_pairs_of_records(30, baseline_ms=10, speculative_ms=10)
    comparison = summarise(records, AA)["comparison"]
    assert comparison["verdict_code"] == "A/A"
    assert comparison["verdict"].startswith("A/A: the same server against itself shows no difference")
    assert comparison["noise_floor"]["source"] == "this A/A run"


@pytest.mark.parametrize(("floor", "code"), [(0.01, "FASTER"), (0.2, "FASTER"), (1.5, "INCONCLUSIVE")])
def test_an_effect_smaller_than_the_aa_noise_is_no_effect(floor: float, code: str) -> None:
    measurement: dict[str, Any] = {"calibration": {"value": floor}}
    comparison = summarise(make_pairs_of_records(30), None, measurement)["comparison"]
    assert comparison["verdict_code"] == code


def test_how_many_pairs_an_interval_needs() -> None:
    """Four times as many pairs for half the width."""
    spread = 0.05 / 1.96
    assert pairs_needed(speedup(1.0, spread), math.expm1(0.025), 100) == 400
    assert pairs_needed(speedup(1.0, spread), math.expm1(0.5), 100) == 100
    assert pairs_needed(Interval(1.0, None, None, 3), 0.05, 3) is None


def test_noise_of_other_loads_is_told() -> None:
    """An A/A run at concurrency 1 does not say how much noise there is at 4."""
    records = [*make_pairs_of_records(10), *make_pairs_of_records(10, concurrency=4)]
    calibration = {"value": 0.01, "loads": ["concurrency 1"]}
    words = "the A/A run has not measured concurrency 4: its noise is that of other loads"
    assert words in summarise(records, {}, {"calibration": calibration})["comparison"]["warnings"]
    everywhere = {"calibration": {**calibration, "loads": ["concurrency 1", "concurrency 4"]}}
    assert words not in summarise(records, {}, everywhere)["comparison"]["warnings"]
