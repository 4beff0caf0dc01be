from __future__ import annotations

from typing import Any

import pytest

from tests.loadtest.fakes import make_pairs_of_records
from trtspec.loadtest.economy import cost_section, gpus_per_arm, price_per_hour
from trtspec.loadtest.intervals import Interval
from trtspec.loadtest.summary import summarise

LEVEL = "concurrency 4"


def spec(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "runtime": "tensorrt_llm",
        "target": {"tp": 4, "pp": 1, "gpus": None},
        "draft": {"tp": 1, "pp": 1, "gpus": None},
        "hardware": {"gpu": "H100", "count": 8, "price_per_hour": 2.5},
    }
    return {"spec": {**made, **changes}}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (4, 4)),
        ({"draft": {"tp": 1, "gpus": [7]}}, (4, 5)),
        ({"draft": {"tp": 1, "gpus": [3]}, "target": {"tp": 4, "gpus": [0, 1, 2, 3]}}, (4, 4)),
        ({"draft": {"tp": 2, "gpus": [4, 5]}, "target": {"tp": 4, "gpus": [0, 1, 2, 3]}}, (4, 6)),
        ({"draft": {"tp": 1, "gpus": [3]}, "hardware": {"gpu": "H100", "count": 4}}, (4, 4)),
        ({"target": {"tp": 2, "pp": 2}}, (4, 4)),
        ({"runtime": "torch"}, (1, 1)),
    ],
)
def test_the_drafts_gpus_are_paid_for(changes: dict[str, Any], expected: tuple[int, int]) -> None:
    found = gpus_per_arm(spec(**changes))
    assert found is not None
    assert (found["baseline"], found["speculative"]) == expected


def test_what_the_run_says_comes_first() -> None:
    said = {**spec(), "deployment": {"baseline": {"gpus": 1}, "speculative": {"gpus": 3}}}
    assert gpus_per_arm(said) == {"baseline": 1, "speculative": 3}
    assert gpus_per_arm({}) is None
    assert gpus_per_arm(spec(hardware=None)) is None


def test_price() -> None:
    assert price_per_hour(spec()) == 2.5
    assert price_per_hour({**spec(), "options": {"price_per_hour": 4}}) == 4.0
    assert price_per_hour({"spec": {"hardware": {"price_per_hour": "much"}}}) is None
    assert price_per_hour({}) is None


def rate(value: float) -> Interval:
    return Interval(value, value * 0.9, value * 1.1, 40)


def test_cost_of_a_million_tokens() -> None:
    """5 GPUs at 2.5 an hour make 1000 tokens/s: 12.5 / 3.6."""
    rates: Any = {LEVEL: {"baseline": rate(500), "speculative": rate(1000)}}
    provenance = spec(draft={"tp": 1, "gpus": [7]})
    found = cost_section(rates, {LEVEL: rate(2.0)}, provenance)
    level = found["by_load"][LEVEL]
    assert level["speculative"]["estimate"] == pytest.approx(12.5 / 3.6)
    assert level["speculative"]["low"] == pytest.approx(12.5 / 3.6 / 1.1)
    assert level["baseline"]["estimate"] == pytest.approx(20 / 3.6)
    assert level["ratio"]["estimate"] == pytest.approx(5 / 4 / 2)
    assert level["ratio"]["high"] == pytest.approx(5 / 4 / 1.8)


def test_without_a_price_the_ratio_still_tells() -> None:
    provenance = spec(hardware={"gpu": "H100", "count": 8})
    found = cost_section({LEVEL: {"baseline": rate(1), "speculative": rate(2)}}, {LEVEL: rate(2.0)}, provenance)
    assert found["reason"] == "no price: set hardware.price_per_hour"
    assert found["by_load"][LEVEL]["baseline"]["estimate"] is None
    assert found["by_load"][LEVEL]["ratio"]["estimate"] == pytest.approx(0.5)


def test_a_draft_gpu_can_eat_the_gain() -> None:
    """1.1 times the tokens on 2 GPUs instead of 1."""
    records = make_pairs_of_records(20, baseline_ms=11, speculative_ms=10)
    provenance = {"deployment": {"baseline": {"gpus": 1}, "speculative": {"gpus": 2}}}
    comparison = summarise(records, provenance)["comparison"]
    ratio = comparison["cost"]["by_load"]["concurrency 1"]["ratio"]
    assert comparison["verdict_code"] == "FASTER"
    assert ratio["estimate"] == pytest.approx(2 / 1.1, rel=0.02)
    assert ratio["low"] > 1
