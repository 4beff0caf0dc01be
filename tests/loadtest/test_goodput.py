from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loadtest.fakes import MS, record
from trtspec.loadtest.distribution import exact_sum, share, wilson
from trtspec.loadtest.goodput import Attempts, goodput, met, service_levels
from trtspec.loadtest.records import Record
from trtspec.loadtest.sample import Sample
from trtspec.loadtest.summary import summarise
from trtspec.loadtest.table import table_of


def sample_of(*records: Record) -> Sample:
    table = table_of(records)
    return Sample(table, np.flatnonzero(table.ok))


# first text at 100 ms, 20 ms a token, longest gap 60 ms, whole answer after 200 ms
ANSWER = record([(100, 1), (140, 2), (200, 2)])


@pytest.mark.parametrize(
    ("levels", "good"),
    [
        ({"ttft": 0.1}, True),
        ({"ttft": 0.099}, False),
        ({"tpot": 0.025}, True),
        ({"tpot": 0.0249}, False),
        ({"e2e": 0.2}, True),
        ({"e2e": 0.19}, False),
        ({"stall": 0.06}, True),
        ({"stall": 0.059}, False),
        ({"ttft": 0.1, "e2e": 0.2, "stall": 0.06, "tpot": 0.025}, True),
        ({"ttft": 0.1, "e2e": 0.2, "stall": 0.01}, False),
    ],
)
def test_each_service_level(levels: dict[str, float], good: bool) -> None:
    found = met(sample_of(ANSWER), levels)
    assert found is not None
    assert found.tolist() == [good]


def test_goodput_counts_what_met_every_level_and_failures_met_none() -> None:
    fast = [record([(100, 1), (200, 9)], start_ms=1000 * i, prompt=f"p{i}") for i in range(8)]
    slow = record([(100, 1), (900, 9)], start_ms=8000, prompt="slow")
    failed = record([(100, 1)], error="boom", start_ms=9000, prompt="failed")
    options = {"options": {"slo": {"e2e": 0.5}}}
    row = summarise([*fast, slow, failed], options)["arms"]["baseline"]["goodput"]
    assert row["mean"] == pytest.approx(8 / (8 * 0.2 + 0.9 + 0.1)), "the failed one took its time too"
    assert (row["slo"], row["unit"], row["count"]) == ({"e2e": 0.5}, "requests/s", 10)
    assert (row["met"]["share"], row["met"]["count"]) == (0.8, 10)
    assert row["met"]["low"] == pytest.approx(0.49016, abs=1e-5)
    assert row["met"]["high"] == pytest.approx(0.94332, abs=1e-5)


def test_speculation_with_the_same_pace_meets_the_same_levels() -> None:
    """A level on the chunk gap would fail every speculative answer: tokens come together."""
    steady, bundled = record([(50 + 10 * i, 1) for i in range(13)]), record([(50 + 30 * i, 3) for i in range(5)])
    for one in (steady, bundled):
        found = met(sample_of(one), {"tpot": 0.0101})
        assert found is not None
        assert found.all()


def test_what_cannot_be_judged_is_absent() -> None:
    uncounted = sample_of(record([(10, None), (30, None)]))
    row = goodput(Attempts(uncounted, 0), {"tpot": 0.1}, 1.0)
    assert row["mean"] is None
    assert "token counts" in row["reason"]
    assert met(uncounted, {"ttft": 0.01}) is not None
    assert goodput(Attempts(uncounted, 0), {}, 1.0)["reason"] == "no service levels were given"


def test_an_answer_in_one_text_had_nothing_to_wait_for() -> None:
    found = met(sample_of(record([(10, None)]), record([(10, 5)])), {"tpot": 0.001, "stall": 0.001})
    assert found is not None
    assert found.all()


def test_service_levels_of_a_run() -> None:
    assert service_levels({"slo": {"ttft": 1, "tpot": 0.05, "itl": 3, "e2e": "soon", "stall": 0}}) == {
        "ttft": 1.0,
        "tpot": 0.05,
    }
    assert service_levels({"slo": [1]}) == service_levels({}) == {}


@given(st.integers(1, 5000), st.data())
def test_the_interval_of_a_share_is_wilsons(count: int, data: st.DataObject) -> None:
    from scipy.stats import binomtest

    hits = data.draw(st.integers(0, count))
    expected = binomtest(hits, count).proportion_ci(method="wilson")
    assert wilson(hits, count) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_a_share_of_nothing_is_absent() -> None:
    assert (share(0, 0)["share"], share(0, 0)["low"]) == (None, None)


@given(st.lists(st.integers(-(2**62), 2**62), max_size=50))
def test_sums_are_exact(values: list[int]) -> None:
    assert exact_sum(np.array(values, dtype=np.int64)) == sum(values)


@given(st.lists(st.floats(-1e12, 1e12), max_size=50), st.randoms())
def test_sums_of_fractions_do_not_depend_on_the_order(values: list[float], shuffle: random.Random) -> None:
    total = exact_sum(np.array(values, dtype=float))
    assert math.isclose(total, math.fsum(values), abs_tol=1e-14 * len(values) * max(map(abs, values), default=0))
    shuffle.shuffle(values)
    assert exact_sum(np.array(values, dtype=float)) == total


def test_requests_that_fail_slowly_make_no_fast_server() -> None:
    """Every second request times out after 2 s: what was answered came in 0.2 s, but not five times a second."""
    good = [record([(100, 1), (200, 9)], start_ms=2200 * i, prompt=f"p{i}") for i in range(4)]
    late = [
        record([(50, 3)], start_ms=2200 * i + 200, prompt=f"t{i}", end_ns=(2200 * i + 2200) * MS, error="no answer",
               cancelled=True, cancel_reason="timeout")
        for i in range(4)
    ]  # fmt: skip
    arm = summarise([*good, *late])["arms"]["baseline"]
    assert arm["active_seconds"] == pytest.approx(8.8)
    assert arm["requests_per_second"]["mean"] == pytest.approx(4 / 8.8)
    assert arm["output_tokens_per_second"]["total"] == pytest.approx(40 / 8.8), "partial answers bring nothing"
    alone = summarise(good)["arms"]["baseline"]
    assert alone["requests_per_second"]["mean"] == pytest.approx(5)
