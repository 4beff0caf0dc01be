from __future__ import annotations

from dataclasses import replace

import pytest

from trtspec.planning.cost import NO_LOAD, NO_PRICE, Deployment, Prices, cheapest, cost_rows, cost_summary
from trtspec.planning.speedup import Performance

# 10 users, 100 tokens each in 10 s: 100 tokens/s and one request a second
RESULT = Performance(10, 0.5, 0.095, 10.0, 100)
PRICES = Prices(3.6, 2.5, 300, 100)
BASELINE = Deployment("baseline", 4, 16)


def test_cost_of_a_million_tokens() -> None:
    """4 GPUs at 3.6 an hour are 0.004 a second; 100 tokens/s make a million tokens cost 40."""
    (row,) = cost_rows([RESULT], BASELINE, PRICES)
    assert row.per_million_output == pytest.approx(40.0)
    assert row.per_million_blended == pytest.approx(10.0)
    assert row.tokens_per_second_per_gpu == pytest.approx(25.0)


def test_gpus_for_a_load_are_whole_deployments() -> None:
    (row,) = cost_rows([RESULT], BASELINE, PRICES)
    assert (row.replicas, row.fleet_gpus) == (3, 12)
    assert row.per_month == pytest.approx(12 * 3.6 * 730)
    (exact,) = cost_rows([RESULT], BASELINE, replace(PRICES, requests_per_second=3.0))
    assert exact.replicas == 3


def test_a_draft_on_a_gpu_of_its_own_is_paid_for() -> None:
    (beside,) = cost_rows([RESULT], Deployment("speculative", 4, 16), PRICES)
    (apart,) = cost_rows([RESULT], Deployment("speculative", 5, 16), PRICES)
    assert apart.per_million_output == pytest.approx(1.25 * (beside.per_million_output or 0))
    assert apart.fleet_gpus == 15


def test_what_was_not_given_is_none_with_a_reason() -> None:
    prices = Prices(None, None, 300, 100)
    rows = cost_rows([RESULT], BASELINE, prices)
    assert (rows[0].per_million_output, rows[0].replicas, rows[0].per_month) == (None, None, None)
    summary = cost_summary(rows, prices, [BASELINE], None)
    assert (summary["price_reason"], summary["load_reason"]) == (NO_PRICE, NO_LOAD)


def test_a_price_of_nothing_is_no_missing_price() -> None:
    (row,) = cost_rows([RESULT], BASELINE, replace(PRICES, gpu_hour=0.0))
    assert row.per_million_output == 0.0


def test_more_sequences_than_fit_are_marked_and_never_the_cheapest() -> None:
    results = [replace(RESULT, concurrency=8), replace(RESULT, concurrency=32)]
    rows = cost_rows(results, BASELINE, PRICES)
    assert [row.fits for row in rows] == [True, False]
    best = cheapest(rows, "baseline")
    assert best is not None
    assert best.concurrency == 8
    assert cheapest(rows, "speculative") is None
