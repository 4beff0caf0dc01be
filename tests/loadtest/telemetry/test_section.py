from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.loadtest.telemetry.pages import VLLM, triton
from trtspec.loadtest.telemetry import server_section
from trtspec.loadtest.telemetry.samples import Samples, read_samples
from trtspec.loadtest.telemetry.scrape import Scrape, growth, parse
from trtspec.loadtest.telemetry.section import ArmLoad
from trtspec.wire.messages import ServerStamps

MS = 1_000_000
LOAD = "concurrency 4"


def entry(before: str, after: str, **more: Any) -> dict[str, Any]:
    grown = growth(Scrape(0, *parse(before)), Scrape(1, *parse(after)))
    rows = [[name, dict(labels), number] for (name, labels), number in grown.values.items()]
    return {"arm": "baseline", "load": LOAD, "reset": grown.reset, "reason": None, "growth": rows, **more}


def figures(part: ArmLoad, *telemetry: dict[str, Any], samples: Samples | None = None) -> dict[str, Any]:
    return server_section([part], telemetry, samples or Samples())["baseline"][LOAD]


def test_queue_time_and_requests_are_the_frontends() -> None:
    found = figures(
        ArmLoad("baseline", LOAD, sent=8),
        entry(triton(requests=2, inner=2, queue=1000), triton(requests=12, inner=80, queue=41000)),
    )
    assert found["times"]["queue_time"]["mean"] == pytest.approx(0.004)
    assert found["times"]["queue_time"]["count"] == 10
    assert found["requests"] == {"server": 10, "ours": 8, "foreign": 2}
    assert "nv_inference_queue_duration_us" in found["families"]


def test_another_kind_of_server_counts_under_its_own_names() -> None:
    later = VLLM.replace('_count{engine="0",model_name="llama"} 4.0', '_count{engine="0",model_name="llama"} 6.0')
    later = later.replace('_sum{engine="0",model_name="llama"} 6.0', '_sum{engine="0",model_name="llama"} 9.0')
    found = figures(ArmLoad("baseline", LOAD, sent=2), entry(VLLM, later))
    assert found["times"]["server_request_time"]["mean"] == pytest.approx(1.5)
    assert found["requests"] == {"server": 2, "ours": 2, "foreign": 0}


def test_a_restarted_server_gives_no_rates() -> None:
    found = figures(ArmLoad("baseline", LOAD, sent=8), entry(triton(requests=50, queue=9), triton(requests=3)))
    assert found["reset"]
    assert found["times"]["queue_time"]["mean"] is None
    assert "restarted" in found["times"]["queue_time"]["reason"]
    assert found["requests"]["foreign"] is None


def test_what_is_not_exported_is_none_with_the_reason() -> None:
    nothing = figures(ArmLoad("baseline", LOAD, sent=8))
    assert nothing["reason"] == "the server's metrics were not read"
    assert nothing["requests"] == {"server": None, "ours": 8, "foreign": None}
    silent = figures(ArmLoad("baseline", LOAD), entry("", "", reason="http://x/metrics answers 404"))
    assert silent["times"]["queue_time"]["reason"] == "http://x/metrics answers 404"


def test_gauges_count_only_while_the_arm_is_under_load() -> None:
    rows: list[tuple[int, dict[str, dict[str, float]]]] = [
        (t * MS, {"kv_cache_usage": {"tensorrt_llm": t / 100}}) for t in (5, 20, 40, 90)
    ]
    part = ArmLoad("baseline", LOAD, spans=[(10 * MS, 30 * MS), (35 * MS, 45 * MS)])
    found = figures(part, samples=Samples(gauges={"baseline": rows}))
    usage = found["gauges"]["kv_cache_usage"]["models"]["tensorrt_llm"]
    assert usage == {"mean": pytest.approx(0.3), "max": 0.4, "count": 2}
    assert found["gauges"]["draft_length"] == {
        "models": {},
        "reason": "no sample was taken, or the server exports no such gauge",
    }


def test_the_time_to_first_token_is_split_by_the_servers_stamps() -> None:
    # its clock is another one
    stamps = ServerStamps(arrival_ns=7_000 * MS, first_scheduled_ns=7_005 * MS, first_token_ns=7_045 * MS)
    found = figures(ArmLoad("baseline", LOAD, first=[(50 * MS, stamps)] * 10))["first_token"]
    assert found["queue"]["p50"] == pytest.approx(0.005)
    assert found["prefill"]["p50"] == pytest.approx(0.040)
    assert found["client_and_network"]["p90"] == pytest.approx(0.005)


@pytest.mark.parametrize(
    "stamps", [ServerStamps(), ServerStamps(5, 4, 9), ServerStamps(arrival_ns=0, first_scheduled_ns=0)]
)
def test_stamps_that_are_missing_or_impossible_are_left_out(stamps: ServerStamps) -> None:
    found = figures(ArmLoad("baseline", LOAD, first=[(50 * MS, stamps)]))["first_token"]
    assert found["queue"]["count"] == 0
    assert "stamps" in found["queue"]["reason"]


def test_samples_of_another_shape_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    lines = [
        '{"t_ns": 2, "arm": "baseline", "gauges": {"draft_length": {"m": 3}, "bad": 1}}',
        '{"t_ns": 1, "arm": "baseline", "gauges": {"draft_length": {"m": 2}}}',
        '{"t_ns": "x", "arm": "baseline", "gauges": {}}',
        '{"gpus": [{"gpu": 0, "t_ns": 5, "power": 10}, {"gpu": "x"}, 3]}',
        "[1]",
        '{"t_ns": 3, "arm": "base',
    ]
    path.write_text("\n".join(lines))
    samples = read_samples(path)
    assert [t for t, _ in samples.gauges["baseline"]] == [1, 2]
    assert samples.gauges["baseline"][1][1] == {"draft_length": {"m": 3.0}, "bad": {}}
    assert samples.gpus == {0: [{"gpu": 0, "t_ns": 5, "power": 10}]}
    assert read_samples(tmp_path / "missing").gauges == {}
