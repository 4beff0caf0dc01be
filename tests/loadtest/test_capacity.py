from __future__ import annotations

from typing import Any

import pytest

from tests.loadtest.fakes import record
from trtspec.loadtest.capacity import Attained, capacity_section
from trtspec.loadtest.levels import parse_level
from trtspec.loadtest.records import Record
from trtspec.loadtest.summary import summarise

SLO = {"ttft": 0.5}


def steps(*found: tuple[str, int, float]) -> list[Attained]:
    """(load, hits of 100, requests per second)."""
    return [Attained(parse_level(load), hits, 100, rate) for load, hits, rate in found]


def ladder(baseline: list[Attained], speculative: list[Attained], kind: str = "poisson") -> dict[str, Any]:
    found: dict[str, Any] = capacity_section({"baseline": baseline, "speculative": speculative}, SLO)["ladders"][kind]
    return found


def test_the_last_step_that_meets_the_levels_and_a_part_of_the_next() -> None:
    """99 % at 4/s, 81 % at 6/s: 90 % halfway."""
    arm = steps(("poisson 2/s", 100, 2.0), ("poisson 4/s", 99, 4.0), ("poisson 6/s", 81, 6.0))
    found = ladder(arm, arm)["baseline"]
    assert found["requests_per_second"] == pytest.approx(5.0)
    assert found["value"] == pytest.approx(5.0)
    assert not found["beyond"]


def test_one_arm_carries_more() -> None:
    baseline = steps(("poisson 2/s", 95, 2.0), ("poisson 4/s", 40, 4.0))
    speculative = steps(("poisson 2/s", 100, 2.0), ("poisson 4/s", 90, 4.0), ("poisson 8/s", 50, 8.0))
    found = ladder(baseline, speculative)
    assert found["ratio"] == pytest.approx(4.0 / (2 + 2 * 5 / 55))
    assert not found["ratio_is_bound"]


def test_a_load_that_is_still_met_is_a_lower_bound() -> None:
    arm = steps(("poisson 2/s", 100, 2.0))
    found = ladder(arm, steps(("poisson 2/s", 50, 2.0)))
    assert found["baseline"]["beyond"]
    assert found["baseline"]["reason"] == "the largest measured load still meets the service levels"
    assert found["speculative"]["requests_per_second"] is None
    assert "fewer than 90% met" in found["speculative"]["reason"]
    assert found["ratio"] is None
    assert found["ratio_is_bound"]


def test_a_step_that_fails_ends_the_ladder() -> None:
    """Luck at a higher load does not count."""
    arm = steps(("poisson 2/s", 95, 2.0), ("poisson 4/s", 85, 4.0), ("poisson 6/s", 95, 6.0))
    assert ladder(arm, arm)["baseline"]["requests_per_second"] == pytest.approx(3.0)


def test_kinds_of_load_are_ladders_of_their_own() -> None:
    arm = steps(
        ("concurrency 1", 100, 1.0), ("concurrency 4", 100, 3.0), ("poisson 2/s", 100, 2.0), ("trace", 100, 2.0)
    )
    found = capacity_section({"baseline": arm, "speculative": arm}, SLO)["ladders"]
    assert found["concurrency"]["baseline"]["value"] == 4
    assert found["poisson"]["baseline"]["value"] == 2
    assert found["trace"]["baseline"]["reason"] == "not measured"


def test_without_service_levels_there_is_no_capacity() -> None:
    assert capacity_section({}, {})["reason"] == "no service levels were given"


def answers(arm: str, load: str, first_ms: float, count: int = 20, **fields: Any) -> list[Record]:
    start = float(load.split()[1].removesuffix("/s")) * 1e6
    chunks = [(first_ms, 1), (first_ms + 10, 1)]
    shared = {"arm": arm, "load": load, **fields}
    return [record(chunks, prompt=f"{load}-{i}", start_ms=start + 200 * i, **shared) for i in range(count)]


def test_capacity_from_records() -> None:
    """The baseline's first token comes too late at 4/s; a tenth of the speculative arm's requests there fail."""
    records = [
        *answers("baseline", "poisson 2/s", 300),
        *answers("baseline", "poisson 4/s", 700),
        *answers("speculative", "poisson 2/s", 300),
        *answers("speculative", "poisson 4/s", 400, 18),
        *answers("speculative", "poisson 4/s", 400, 2, error="boom"),
    ]
    capacity = summarise(records, {"options": {"slo": SLO}})["comparison"]["capacity"]
    arms = capacity["ladders"]["poisson"]
    assert capacity["slo"] == {"ttft": 0.5}
    assert arms["baseline"]["value"] == arms["baseline"]["requests_per_second"] == pytest.approx(2.2)
    assert [step["requests_per_second"] for step in arms["speculative"]["steps"]] == [2.0, 4.0]
    assert arms["speculative"]["beyond"]
    assert arms["speculative"]["steps"][1]["met"]["share"] == pytest.approx(0.9)
    assert arms["speculative"]["steps"][1]["met"]["count"] == 20
    stricter = summarise(records, {"options": {"slo": SLO, "slo_share": 0.95}})["comparison"]["capacity"]
    assert not stricter["ladders"]["poisson"]["speculative"]["beyond"]
