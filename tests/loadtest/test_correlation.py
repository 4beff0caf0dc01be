from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from tests.loadtest.fakes import counters, record
from trtspec.loadtest.correlation import acceptance_per_request, correlations, spearman, thinned
from trtspec.loadtest.pairing import pair_rows
from trtspec.loadtest.positions import acceptance_by_position
from trtspec.loadtest.records import Record
from trtspec.loadtest.table import table_of


def rounds(sizes: list[int], *, round_ms: float = 20.0, **fields: Any) -> Record:
    """A speculative answer whose rounds brought so many tokens."""
    return record([(round_ms * (i + 1), size) for i, size in enumerate(sizes)], arm="speculative", **fields)


def baseline(tokens: int, **fields: Any) -> Record:
    return record([(10.0 * (i + 1), 1) for i in range(tokens)], **fields)


def one_level(count: int = 20, **fields: Any) -> list[Record]:
    """The more tokens a round brings, the faster the answer: 1 to 5 tokens."""
    records = []
    for index in range(count):
        size = 1 + index % 5
        shared = {"prompt": f"p{index}", "start_ms": index * 5000.0, **fields}
        records.append(baseline(20 * size, **shared))
        records.append(rounds([size] * 20, **{**shared, "start_ms": index * 5000.0 + 2500}))
    return records


def test_acceptance_explains_the_speed_up() -> None:
    found = correlations(pair_rows(table_of(one_level())), 0.0)
    speed = found["acceptance_speedup"]
    assert speed["rho"] == pytest.approx(1.0)
    assert speed["count"] == 20
    assert speed["source"] == "chunks"
    assert speed["low"] > 0.99
    assert [1.0, pytest.approx(0.5)] in speed["points"]
    assert found["acceptance_output_tokens"]["rho"] == pytest.approx(1.0)
    assert found["acceptance_prompt_tokens"]["rho"] is None
    assert found["acceptance_temperature"]["reason"] == "the run has one temperature (0); compare runs"


def test_the_servers_counters_come_before_chunks() -> None:
    """3 rounds that accepted 0, 1 and 2 of 2 drafted tokens: 1 + 3/3."""
    table = table_of([rounds([1, 2, 3], server=counters([1, 1, 1], 6)), rounds([1, 1])])
    values, source = acceptance_per_request(table, np.array([0, 1]))
    assert source == "server"
    assert values[0] == pytest.approx(2.0)
    assert np.isnan(values[1])


def test_one_level_is_scipys_spearman() -> None:
    rng = np.random.default_rng(1)
    one = rng.integers(0, 9, 60).astype(float)
    other = one + rng.normal(0, 4, 60)
    found = spearman(one, other, [np.arange(60)])
    assert found["rho"] == pytest.approx(float(spearmanr(one, other).statistic))
    assert found["low"] < found["rho"] < found["high"]


def test_a_difference_between_levels_is_no_correlation() -> None:
    """Both values are larger at the second level and unrelated within each."""
    rng = np.random.default_rng(2)
    one, other = rng.normal(size=400), rng.normal(size=400)
    one[200:] += 10
    other[200:] += 10
    levels = [np.arange(200), np.arange(200, 400)]
    assert abs(spearman(one, other, levels)["rho"]) < 0.15
    assert spearman(one, other, [np.arange(400)])["rho"] > 0.7


def test_the_interval_holds_the_correlation_as_often_as_it_says() -> None:
    """Normal values with a correlation of 0.6: Spearman's is 6/π asin(0.3)."""
    rng = np.random.default_rng(3)
    truth, hits = 6 / np.pi * np.arcsin(0.3), 0
    for _ in range(400):
        one, noise = rng.normal(size=(2, 60))
        found = spearman(one, 0.6 * one + 0.8 * noise, [np.arange(60)])
        hits += found["low"] <= truth <= found["high"]
    assert 0.92 <= hits / 400 <= 0.98


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ([1.0] * 20, list(range(20)), "the same in all answers"),
        ([1.0, 2.0], [1.0, 2.0], "needs 8 answers"),
        ([float("nan")] * 20, list(range(20)), "needs 8 answers"),
    ],
)
def test_what_cannot_be_told_has_a_reason(one: list[float], other: list[float], words: str) -> None:
    found = spearman(np.array(one), np.array(other, dtype=float), [np.arange(len(one))])
    assert found["rho"] is None
    assert words in found["reason"]


def test_thinning_is_even() -> None:
    assert thinned(5).tolist() == [0, 1, 2, 3, 4]
    assert thinned(1000, 4).tolist() == [0, 250, 500, 750]


def by_position(records: list[Record]) -> dict[str, Any]:
    return acceptance_by_position(table_of(records), np.arange(len(records)))


def test_tokens_per_round_by_place() -> None:
    """Rounds of 4 up to token 16, of 2 after it; the first and the last round do not count."""
    found = by_position([rounds([1, 4, 4, 4, 4, 2, 2, 2, 2, 2, 1])] * 6)
    first, second = found["bins"]
    assert (first["start"], first["end"], first["tokens_per_round"], first["requests"]) == (0, 16, 4.0, 6)
    assert (second["start"], second["end"], second["tokens_per_round"]) == (16, 32, 2.0)
    assert first["rounds"] + second["rounds"] == 6 * 9


def test_acceptance_that_decays_is_seen() -> None:
    """Five inner rounds of 4, then five of 2."""
    decaying = by_position([rounds([1, *[4] * 5, *[2] * 5, 1])] * 10)["decay"]
    assert decaying["estimate"] == pytest.approx(0.5)
    assert decaying["high"] < 0.51
    steady = by_position([rounds([1, *[3] * 10, 1])] * 10)["decay"]
    assert steady["estimate"] == pytest.approx(1.0)
    assert by_position([rounds([1, 4, 4, 1])] * 10)["decay"]["estimate"] is None


def test_answers_that_hold_tokens_back_are_left_out() -> None:
    hidden = record([(10, 1, "a"), (20, 4, ""), (30, 4, "b"), (40, 1, "c")], arm="speculative")
    assert by_position([hidden] * 5)["bins"] == []
    assert by_position([hidden] * 5)["reason"] is not None
    uncounted = record([(10, None), (20, None), (30, None)], arm="speculative")
    assert by_position([uncounted] * 5)["bins"] == []
    assert by_position([])["bins"] == []
