from __future__ import annotations

import asyncio
import time
from pathlib import Path

import psutil
import pytest

from tests.loadtest.telemetry.pages import serving, triton
from trtspec.loadtest.telemetry import Source, Telemetry, metrics_address, read_samples, server_section
from trtspec.loadtest.telemetry.samples import Samples
from trtspec.loadtest.telemetry.section import ArmLoad

SOON = 30.0
LOAD = "concurrency 1"


def test_blocks_add_up_and_pauses_between_them_do_not_count(tmp_path: Path) -> None:
    pages = [triton(requests=n) for n in (10, 14, 100, 103)]

    async def run(url: str) -> Telemetry:
        # a sampler would take pages away
        telemetry = Telemetry({"baseline": Source(url)}, tmp_path)
        for _ in range(2):
            await telemetry.before("baseline")
            await telemetry.after("baseline", LOAD)
        return telemetry

    with serving(pages) as url:
        entries = asyncio.run(run(url)).as_json()
    assert [(entry["arm"], entry["load"], entry["blocks"]) for entry in entries] == [("baseline", LOAD, 2)]
    section = server_section([ArmLoad("baseline", LOAD, sent=7)], entries, Samples())
    assert section["baseline"][LOAD]["requests"] == {"server": 7, "ours": 7, "foreign": 0}


def test_a_server_without_metrics_gives_a_reason(tmp_path: Path) -> None:
    async def run() -> list[dict[str, object]]:
        async with Telemetry({"baseline": Source(None)}, tmp_path) as telemetry:
            await telemetry.before("baseline")
            await telemetry.after("baseline", LOAD)
        return telemetry.as_json()

    (entry,) = asyncio.run(run())
    assert entry["reason"] == "no address of metrics is known"
    assert entry["growth"] == []


def test_the_sampler_writes_while_it_runs_and_ends_with_its_owner(tmp_path: Path) -> None:
    async def run(url: str) -> list[int]:
        others = {child.pid for child in psutil.Process().children()}
        async with Telemetry({"baseline": Source(url)}, tmp_path, interval=0.02):
            deadline = time.monotonic() + SOON
            while len(read_samples(tmp_path / "telemetry.jsonl").gauges.get("baseline", ())) < 3:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.02)
            return [child.pid for child in psutil.Process().children() if child.pid not in others]

    begin = time.perf_counter_ns()
    with serving([triton(kv=0.5)]) as url:
        children = asyncio.run(run(url))
    assert children
    assert not any(psutil.pid_exists(pid) for pid in children)
    rows = read_samples(tmp_path / "telemetry.jsonl").gauges["baseline"]
    assert rows[0][1]["kv_cache_usage"]["tensorrt_llm"] == 0.5
    assert begin < rows[0][0] <= rows[-1][0] < time.perf_counter_ns()  # the records' clock


@pytest.mark.parametrize(
    ("url", "port", "expected"),
    [
        ("localhost:8001", None, "http://localhost:8002/metrics"),
        ("http://gpu:8000", 9002, "http://gpu:9002/metrics"),
        ("grpcs://gpu:8001#ca.pem", None, "http://gpu:8002/metrics"),
        ("https://gpu:8000/v1", None, "https://gpu:8000/metrics"),
        ("http://gpu:8000/v1/", None, "http://gpu:8000/metrics"),
        ("[::1]:8001", None, "http://[::1]:8002/metrics"),
        ("", None, None),
    ],
)
def test_addresses_by_convention(url: str, port: int | None, expected: str | None) -> None:
    assert metrics_address(url, port) == expected
