from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.loadtest.fakes import MS, make_pairs_of_records
from trtspec.loadtest.client_bound import check_client
from trtspec.loadtest.pairing import Pairs, pair_rows
from trtspec.loadtest.summary import summarise
from trtspec.loadtest.table import table_of

RECORDS = make_pairs_of_records(20, spread=0)
PAIRS = pair_rows(table_of(RECORDS))
# 220 against 110 ms and a little: the effect is 112.2 ms
EFFECT = 0.1122


def lag(p50: float) -> dict[str, Any]:
    return {"loop_lag": {"p50": p50, "p99": 10 * p50}}


def test_the_limit_is_a_tenth_of_the_effect() -> None:
    assert check_client(PAIRS, lag(0.0)).limit == pytest.approx(EFFECT / 10, rel=0.01)
    assert check_client(PAIRS, lag(0.9 * EFFECT / 10)).reason is None
    bound = check_client(PAIRS, lag(1.1 * EFFECT / 10))
    assert bound.reason is not None
    assert bound.reason.startswith("the load generator itself is 12.3 ms late")


def test_without_an_effect_the_limit_is_a_tenth_of_what_counts_as_none() -> None:
    same = pair_rows(table_of(make_pairs_of_records(20, baseline_ms=10, speculative_ms=10, spread=0)))
    limit = check_client(same, {}).limit
    assert limit == pytest.approx(0.1 * 0.05 * 0.112, rel=0.02)


def test_late_sends_count_as_error() -> None:
    late = [replace(one, scheduled_ns=one.start_ns - 20 * MS, load="poisson 5/s") for one in RECORDS]
    pairs: Pairs = pair_rows(table_of(late))
    found = check_client(pairs, {})
    assert found.error == pytest.approx(0.020)
    assert found.reason is not None


def test_a_generator_without_cpu_left_is_bound() -> None:
    found = check_client(PAIRS, {**lag(0.0), "cpu_share": 0.99})
    assert found.reason == "a load generator process used 99% of a CPU and could not keep up"


def test_of_several_processes_the_busiest_counts_not_their_sum() -> None:
    two = {"cpu_share": 1.2, "processes": [{"cpu_share": 0.6}, {"cpu_share": 0.6}]}
    assert check_client(PAIRS, two).reason is None
    two["processes"] = [{"cpu_share": 0.2}, {"cpu_share": 1.0}]
    assert check_client(PAIRS, two).reason is not None


def test_what_nothing_tells_is_unknown_not_fine() -> None:
    assert check_client(PAIRS, {}).to_json() == {
        "bound": None,
        "error": None,
        "limit": pytest.approx(EFFECT / 10, rel=0.01),
        "unit": "s",
        "reason": None,
    }


def test_a_client_bound_run_has_no_verdict() -> None:
    comparison = summarise(RECORDS, None, {"client": lag(0.050)})["comparison"]
    assert comparison["verdict_code"] == "INCONCLUSIVE (client-bound)"
    assert comparison["client_bound"]["bound"] is True
    assert comparison["by_load"]["concurrency 1"]["verdict"] == "INCONCLUSIVE (client-bound)"
    assert summarise(RECORDS, None, {"client": lag(0.001)})["comparison"]["verdict_code"] == "FASTER"
