"""The table of where a speed-up comes from, with what the server's clock says of a round."""

from __future__ import annotations

from typing import Any, cast

from trtspec.loadtest.levels import parse_level
from trtspec.reports.levels import Level
from trtspec.reports.origin_charts import _table

FACTORS = {"tokens_per_round": 2.0, "round_cost": 0.625, "uneven_rounds": 1.0, "first_token_and_ending": 1.0}
ROUND = {"step": 0.025, "draft": 0.005, "target": 0.03, "overhead": 0.001, "transport": 0.004}


def rows(*rounds: dict[str, Any]) -> list[list[str]]:
    found = {
        Level(parse_level(f"concurrency {number}"), cast("Any", None)): {
            "factors": FACTORS, "predicted": 1.25, "measured": 1.25, "round": parts,
        }
        for number, parts in enumerate(rounds, 1)
    }  # fmt: skip
    return [[cell.text for cell in row] for row in _table(found).rows]


def test_parts_of_a_round_are_in_steps_of_the_baseline() -> None:
    told = {**ROUND, "ideal": 1.4286, "achieved_over_ideal": 0.875, "reason": None}
    silent = {**dict.fromkeys(told, None), "reason": "the server's metrics were not read"}
    first, second = rows(told, silent)
    assert first[-6:] == ["0.20 steps", "1.20 steps", "0.04 steps", "0.16 steps", "1.43×", "88 %"]
    assert second[-6:] == ["–"] * 6


def test_a_run_without_the_servers_clock_has_no_such_columns() -> None:
    [row] = rows({"ideal": None, "reason": "the server's metrics were not read"})
    assert len(row) == 1 + len(FACTORS) + 2
