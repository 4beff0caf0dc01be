"""Several load processes, for real: sockets, processes, clocks."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.loadtest.fakes import MS, record
from tests.loadtest.servers import chat_server, pace
from trtspec.errors import LoadTestFailed
from trtspec.loadtest import RunOptions, read_run, run
from trtspec.loadtest.arrivals import closed_loop
from trtspec.loadtest.crew import Address, Half
from trtspec.loadtest.plan import Shape, make_plan
from trtspec.loadtest.prompts import load_prompts
from trtspec.loadtest.records import Record
from trtspec.loadtest.sender import SendOptions
from trtspec.loadtest.workers import WorkerCrew, aligned, clock_offset
from trtspec.progress import SilentReporter

BUILTIN = load_prompts("builtin-60").prompts


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(6000):
        if condition():
            return
        await asyncio.sleep(0.01)
    pytest.fail("waited a minute in vain")


def workers_alive(parent: int | None = None) -> list[psutil.Process]:
    found = []
    for child in psutil.Process(parent or os.getpid()).children():
        with contextlib.suppress(psutil.Error):
            if "trtspec.loadtest.worker" in child.cmdline() and child.status() != psutil.STATUS_ZOMBIE:
                found.append(child)
    return found


def test_several_processes_send_one_plan_together(tmp_path: Path) -> None:
    with chat_server() as one, chat_server() as other:
        urls: Any = {"baseline": f"{one.url}/v1", "speculative": f"{other.url}/v1"}
        options = RunOptions(
            urls=urls, out=tmp_path / "run", workers=2, max_tokens=6, concurrency=(3,), rate=(30.0,), requests=24
        )
        result = run(None, options, SilentReporter())
    assert result.failure is None
    records = read_run(result.path).records
    for arm, load in product(("baseline", "speculative"), ("concurrency 3", "poisson 30/s")):
        measured = [r for r in records if r.arm == arm and r.load == load and r.excluded is None]
        assert len({r.pair_id for r in measured}) == len(measured) == 24
        assert {r.worker for r in measured} == {0, 1}
        assert all(r.ok for r in measured)
    client = result.summary["client"]
    assert client["workers"] == len(client["processes"]) == 2
    assert client["loop_lag"]["count"] > 0
    # on one machine all processes read one clock
    assert all(abs(process["clock_offset_ns"]) < 50 * MS for process in client["processes"])
    assert result.summary["comparison"]["equality"]["identical"] == 48
    assert workers_alive() == []


def test_cancelling_ends_what_the_processes_do_and_keeps_them() -> None:
    async def cancelled() -> list[Record]:
        records: list[Record] = []
        traffic = closed_loop(4)
        (level,) = make_plan(BUILTIN, Shape((4,), 32, 0, 1))
        with chat_server(pace(first_ms=20, gap_ms=20)) as server:
            addresses: Any = {"baseline": Address(f"{server.url}/v1")}
            async with WorkerCrew(2, addresses, SendOptions(), records.append) as crew:
                work = asyncio.create_task(crew.run(Half("baseline", level.blocks[0], traffic, 0, 0.0)))
                await until(lambda: len(server.asked) >= 4)
                work.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await work
                report = await crew.report()
                assert report["workers"] == 2
        return records

    records = asyncio.run(cancelled())
    assert {r.cancel_reason for r in records} == {"stop"}
    assert len(records) == 4
    assert workers_alive() == []


def test_a_process_that_dies_fails_the_run() -> None:
    async def killed() -> None:
        (level,) = make_plan(BUILTIN, Shape((2,), 16, 0, 1))
        with chat_server(pace(first_ms=50, gap_ms=50)) as server:
            addresses: Any = {"baseline": Address(f"{server.url}/v1")}
            async with WorkerCrew(2, addresses, SendOptions(), lambda _: None) as crew:
                work = asyncio.create_task(crew.run(Half("baseline", level.blocks[0], closed_loop(2), 0, 0.0)))
                await until(lambda: len(server.asked) >= 2)
                workers_alive()[0].kill()
                await asyncio.wait_for(work, 60)

    with pytest.raises(LoadTestFailed, match=r"load process .* was ended by SIGKILL"):
        asyncio.run(killed())
    assert workers_alive() == []


def test_the_offset_of_another_clock_is_taken_from_the_quickest_answer() -> None:
    ahead = 5_000_000
    rounds = [(0, ahead + 900, 1000), (2000, ahead + 2050, 2100), (3000, ahead + 3900, 4000)]
    assert clock_offset(rounds) == ahead
    # the same clock: the answer was read between the question and its return
    assert clock_offset([(0, 990, 1000), (2000, 2010, 2100)]) == 0


def test_times_of_another_clock_are_set_to_this_one() -> None:
    given = record([(10, 1), (20, 1)], start_ms=100)
    moved = aligned(given, 30 * MS)
    assert (moved.start_ns, moved.scheduled_ns, moved.end_ns) == (70 * MS, 70 * MS, 90 * MS)
    assert [chunk.t_ns for chunk in moved.chunks] == [80 * MS, 90 * MS]
    assert aligned(given, 0) is given
