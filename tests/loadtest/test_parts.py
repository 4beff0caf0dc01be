"""A run that goes on says nothing of a part that is not of the whole."""

from __future__ import annotations

from typing import Any

from trtspec.loadtest.parts import Kept, joined_measurement, kept_loads

LAG = {"p50": 0.001, "p99": 0.004, "max": 0.005, "count": 10, "unit": "s"}


def part(**values: Any) -> dict[str, Any]:
    client = {"loop_lag": LAG, "send_lag": None, "cpu_share": 0.2, "workers": 1}
    return {"client": client, "servers": [], "telemetry": [], "targets": {}, "cold_start": {}, **values}


def counted(load: str, requests: int) -> dict[str, Any]:
    return {"arm": "baseline", "load": load, "frontend_requests": requests, "target_requests": requests}


def test_what_is_kept_of_each_load() -> None:
    blocks = [("a", range(2)), ("b", range(3)), ("c", range(1))]
    done = frozenset({("a", 0), ("a", 1), ("b", 0)})
    assert kept_loads(blocks, done) == Kept(frozenset({"a"}), frozenset({"b"}))


def test_a_load_that_both_parts_measured_has_no_count_of_the_server() -> None:
    before = part(servers=[counted("a", 20)])
    now = part(servers=[counted("a", 0), counted("b", 7), counted("c", 9)])
    found = joined_measurement(before, now, Kept(frozenset({"a"}), frozenset({"b"})))
    counts = {row["load"]: row["frontend_requests"] for row in found["servers"]}
    assert counts == {"a": 20, "b": None, "c": 9}


def test_counters_of_a_part_are_not_the_loads() -> None:
    row = {"arm": "baseline", "load": "b", "growth": [["x", {}, 5.0]], "blocks": 3, "reset": False, "reason": None}
    (found,) = joined_measurement(part(), part(telemetry=[row]), Kept(partly=frozenset({"b"})))["telemetry"]
    assert found["growth"] == []
    assert "interrupted during this load" in found["reason"]


def test_the_worse_part_speaks_for_the_load_generator() -> None:
    slow = {"loop_lag": {**LAG, "p50": 0.02}, "send_lag": LAG, "cpu_share": 0.9, "workers": 1}
    for before, now in ((part(client=slow), part()), (part(), part(client=slow))):
        client = joined_measurement(before, now, Kept())["client"]
        assert client["loop_lag"]["p50"] == 0.02
        assert client["send_lag"] == LAG
        assert client["cpu_share"] == 0.9


def test_the_first_start_is_the_cold_one_and_every_part_counts() -> None:
    before = part(cold_start={"baseline": {"launch_to_ready": 9.0}})
    found = joined_measurement(before, part(cold_start={"baseline": {"launch_to_ready": 2.0}}), Kept())
    assert found["cold_start"]["baseline"]["launch_to_ready"] == 9.0
    assert found["resumed"] == {"parts": 2, "changed": []}
    assert joined_measurement(found, part(), Kept())["resumed"]["parts"] == 3
    assert joined_measurement({}, part(), Kept())["resumed"]["parts"] == 2


def test_another_server_afterwards_is_noticed_and_another_address_is_none() -> None:
    one = {"url": "http://h:1", "kind": "triton-http", "model": "m", "server": {"version": "1"}, "configuration": {}}
    moved, newer = {**one, "url": "http://h:2"}, {**one, "server": {"version": "2"}}
    now = part(targets={"baseline": moved, "speculative": newer})
    found = joined_measurement(part(targets={"baseline": one, "speculative": one}), now, Kept())
    assert found["resumed"]["changed"] == ["speculative"]
