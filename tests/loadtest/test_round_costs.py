"""Parts of a round by the server's clock, beside what clients saw."""

from __future__ import annotations

from typing import Any

import pytest

from trtspec.loadtest.round_costs import with_round_costs

LEVEL = "concurrency 1"


def summary(**changes: Any) -> dict[str, Any]:
    """A round of 40 ms that brings 2 tokens; a step of the baseline takes 25 ms."""
    times = {"round_draft_time": 0.008, "round_target_time": 0.03, "round_overhead_time": 0.001}
    predicted = {"tokens_per_round": 2.0, "decode": 1.25, "reason": None}
    return {
        "arms": {"baseline": {"by_load": {LEVEL: {"time_per_output_token": {"mean": 0.025}}}}},
        "server": {"speculative": {LEVEL: {"times": {name: {"mean": value} for name, value in times.items()}}}},
        "comparison": {"verdict": "FASTER", "predicted": {"by_load": {LEVEL: predicted}}},
        **changes,
    }


def parts(given: dict[str, Any]) -> Any:
    found = with_round_costs(given)
    assert found["comparison"]["verdict"] == "FASTER"
    return found["comparison"]["predicted"]["by_load"][LEVEL]["round"]


def test_the_parts_add_up_to_the_round_that_clients_saw() -> None:
    found = parts(summary())
    assert sum(found[name] for name in ("draft", "target", "overhead", "transport")) == pytest.approx(1.6 * 0.025)
    assert found["transport"] == pytest.approx(0.001)
    assert found["ideal"] == pytest.approx(2.0 * 0.025 / 0.038)
    assert found["achieved_over_ideal"] == pytest.approx(1.25 / found["ideal"])
    assert found["reason"] is None


def test_a_server_that_tells_nothing_leaves_them_unknown_with_its_reason() -> None:
    silent = {"round_target_time": {"mean": None, "reason": "the server exports no such time"}}
    found = parts(summary(server={"speculative": {LEVEL: {"times": silent}}}))
    assert (found["ideal"], found["transport"], found["step"]) == (None, None, 0.025)
    assert found["reason"] == "the server exports no such time"
    assert parts(summary(server={}))["reason"] == "the server's metrics were not read"


def test_without_steps_of_the_baseline_there_is_no_ideal() -> None:
    found = parts(summary(arms={}))
    assert found["ideal"] is None
    assert found["target"] == 0.03
    assert found["reason"] == "the baseline's steps are not known"


def test_a_summary_without_a_comparison_stays_as_it_is() -> None:
    assert with_round_costs({"comparison": {}, "arms": {}}) == {"comparison": {}, "arms": {}}
