"""The measurement itself: both arms in turn, block after block, until the plan or the patience ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from trtspec.errors import LoadTestFailed, RequestFailed
from trtspec.loadtest.arms import ArmServer
from trtspec.loadtest.cold_start import first_answer
from trtspec.loadtest.crew import Address, Crew, Half, LocalCrew
from trtspec.loadtest.divergence import Examiner, examine
from trtspec.loadtest.jobs import Shape
from trtspec.loadtest.loop import frozen_heap, interruptible, run_loop
from trtspec.loadtest.outcome import Outcome, growth
from trtspec.loadtest.plan import Block, Level, make_plan, next_round, total_requests
from trtspec.loadtest.prompts import Prompt
from trtspec.loadtest.recorder import Recorder
from trtspec.loadtest.records import Record, RecordWriter
from trtspec.loadtest.run_folder import RunFolder
from trtspec.loadtest.sender import ArmClient, SendOptions
from trtspec.loadtest.status import Listener, Tracker
from trtspec.loadtest.stopping import Patience, Watch, most_rounds
from trtspec.loadtest.telemetry import Source, Telemetry
from trtspec.loadtest.telemetry.scrape import fetch
from trtspec.loadtest.workers import WorkerCrew
from trtspec.spec.names import Arm
from trtspec.wire import Connection, ModelCounts, OpenedTarget, open_target

__all__ = ["Assignment", "measure"]

_READY = 30.0
# the longest time over which connections of a level start, or an open loop runs before it is measured
_LONGEST_RAMP = 10.0
_FIRST_RAMP = 0.5
# requests before an open loop is measured
_LARGEST_LEAD = 10_000


@dataclass(frozen=True)
class Assignment:
    """What is to be measured, where, and who is told.

    `done` are the blocks (load, index) that an earlier, interrupted part of this run has measured.
    """

    servers: Mapping[Arm, ArmServer]
    prompts: Sequence[Prompt]
    shape: Shape
    options: SendOptions
    folder: RunFolder
    patience: Patience = field(default_factory=Patience)
    workers: int = 1
    dtype: str | None = None
    runtime: str | None = None
    count_tokens: Callable[[str], int] | None = None
    listener: Listener | None = None
    done: frozenset[tuple[str, int]] = frozenset()

    @property
    def one_server(self) -> bool:
        """True where both arms are the same server, so that its own counts are of both."""
        return len({server.url for server in self.servers.values()}) == 1


def measure(assignment: Assignment) -> Outcome:
    """Send everything and record it; Ctrl-C ends it early with what there is. ServerUnreachable before it begins."""
    return run_loop(_measure(assignment))


async def _measure(assignment: Assignment) -> Outcome:
    outcome = Outcome()
    work = asyncio.create_task(_Session(assignment, outcome).run())
    with interruptible(work):
        try:
            await work
        except asyncio.CancelledError:
            outcome.interrupted = True
    return outcome


@dataclass
class _Session:
    assignment: Assignment
    outcome: Outcome
    targets: dict[Arm, OpenedTarget] = field(default_factory=dict)

    async def run(self) -> None:
        given = self.assignment
        async with AsyncExitStack() as stack:
            writer = stack.enter_context(RecordWriter(given.folder.requests))
            tracker = Tracker(self._total())
            keep = given.patience.until is not None
            self.recorder = Recorder(writer, tracker, given.listener, given.count_tokens, keep)
            for arm, server in given.servers.items():
                await asyncio.to_thread(server.activate)
                target = open_target(server.url, kind=server.kind, model=server.model)
                self.targets[arm] = await stack.enter_async_context(target)
                await target.wait_ready(timeout=_READY)
                self.outcome.targets[arm] = await _facts(target)
                await self._cold_start(arm, server)
            self.telemetry = await stack.enter_async_context(Telemetry(await self._sources(), given.folder.path))
            self.crew = await stack.enter_async_context(self._crew())
            try:
                async with frozen_heap():
                    await self._levels()
            except LoadTestFailed as error:  # a load process broke: what was measured until then is a result
                self.outcome.failure = error
            finally:
                await self._write_down()
            if self.outcome.failure is None:
                await self._examine()

    async def _sources(self) -> dict[Arm, Source]:
        """Where the servers export metrics, as far as something answers there."""
        sources = {}
        for arm, server in self.assignment.servers.items():
            await asyncio.to_thread(server.activate)
            found = await asyncio.to_thread(fetch, server.metrics)
            sources[arm] = Source(server.metrics if found.reason is None else None)
        return sources

    def _total(self) -> int | None:
        given = self.assignment
        if given.patience.open_ended:
            return None
        levels = make_plan(given.prompts, given.shape)
        left = [(level, block) for level in levels for block in level.blocks]
        skipped = sum(len(block.jobs) for level, block in left if (level.label, block.index) in given.done)
        return total_requests(levels) - 2 * skipped

    def _crew(self) -> Crew:
        given = self.assignment
        addresses = {arm: Address(server.url, server.kind, server.model) for arm, server in given.servers.items()}
        # asked of the server as it is then: it may have been started anew
        fatal = {arm: partial(_fatal, server) for arm, server in given.servers.items()}
        if given.workers == 1:
            return LocalCrew(addresses, given.options, self.recorder.add, fatal)
        return WorkerCrew(given.workers, addresses, given.options, self.recorder.add, fatal)

    async def _cold_start(self, arm: Arm, server: ArmServer) -> None:
        if server.launch_seconds is None:
            reason = "this server was not started by the load test"
            self.outcome.cold_start[arm] = {"launch_to_ready": None, "reason": reason}
            return
        kept: list[Record] = []
        client = ArmClient(arm, self.targets[arm], self.assignment.options, kept.append)
        self.outcome.cold_start[arm] = await first_answer(client, kept, server.launch_seconds)

    async def _write_down(self) -> None:
        self.recorder.flush()
        self.outcome.count, self.outcome.errors = self.recorder.count, self.recorder.errors
        self.outcome.error_codes = self.recorder.error_codes
        self.outcome.telemetry = self.telemetry.as_json()
        report = await self.crew.report()
        self.outcome.client = {**report, "send_lag": self.recorder.send_lag.result()}

    async def _levels(self) -> None:
        given = self.assignment
        for position, level in enumerate(make_plan(given.prompts, given.shape, given.done)):
            self.recorder.level.clear()
            before = await self._counts()
            await self._scrape(level, begin=True)
            await self._rounds(position, level)
            await self._scrape(level, begin=False)
            after = await self._counts()
            for arm in self.assignment.servers:
                place = level.label, level.concurrency
                self.outcome.servers.append(growth(arm, place, before[arm], after[arm]))

    async def _rounds(self, position: int, level: Level) -> None:
        given = self.assignment
        most = most_rounds(len(given.prompts), given.shape.requests)
        watch = Watch(given.patience, level.traffic, lambda: self.recorder.level, most)
        number = blocks = 0
        while level.blocks:
            for block in level.blocks:
                if (level.label, block.index) not in self.assignment.done:
                    await self._block(level, block, watch)
                if watch.enough(block.index) or (self.outcome.stopped and self.assignment.patience.open_ended):
                    return
            number, blocks = number + 1, blocks + len(level.blocks)
            if not watch.another_round(number):
                return
            level = next_round(self.assignment.prompts, self.assignment.shape, (position, number), blocks)

    async def _block(self, level: Level, block: Block, watch: Watch) -> None:
        self.recorder.block_begins(block.jobs)
        for order, arm in enumerate(block.order):
            half = Half(arm, block, level.traffic, order, self._ramp(arm, level))
            if self.outcome.stopped is not None:
                self._skip(half)
                continue
            await asyncio.to_thread(self.assignment.servers[arm].activate)
            if not _single(level):
                await self.telemetry.before(arm)
            begin = time.perf_counter()
            await self.crew.run(half)
            watch.worked(time.perf_counter() - begin)
            if not _single(level):
                await self.telemetry.after(arm, level.label)
            self.recorder.flush()
            self.outcome.stopped = self.crew.down(arm)

    def _skip(self, half: Half) -> None:
        """Of an arm whose server is gone, what was planned counts as failed; the other arm's is left out."""
        down = self.crew.down(half.arm)
        if down is not None:
            client = ArmClient(half.arm, self.targets[half.arm], self.assignment.options, self.recorder.add)
            for job in half.block.jobs:
                client.skip(job, half.place(), down)

    def _ramp(self, arm: Arm, level: Level) -> float:
        """About the time of one answer, so that connections are spread evenly over it."""
        if level.traffic.closed and level.concurrency == 1:
            return 0.0
        seconds = self.recorder.mean_seconds(arm)
        ramp = _FIRST_RAMP if seconds is None else min(_LONGEST_RAMP, seconds)
        return ramp if level.traffic.closed else min(ramp, _LARGEST_LEAD / level.traffic.rate_at(0.0))

    async def _scrape(self, level: Level, *, begin: bool) -> None:
        """Of a level with one request at a time the servers are asked at its ends, not between any two requests."""
        if not _single(level) or self.assignment.one_server:
            return
        for arm in self.assignment.servers:
            await (self.telemetry.before(arm) if begin else self.telemetry.after(arm, level.label))

    async def _counts(self) -> dict[Arm, Mapping[str, ModelCounts] | None]:
        if self.assignment.one_server:
            return dict.fromkeys(self.assignment.servers)
        return {arm: await self._counts_of(arm) for arm in self.assignment.servers}

    async def _counts_of(self, arm: Arm) -> Mapping[str, ModelCounts] | None:
        """Requests that each model answered since it was loaded; None when the server does not tell."""
        if self.crew.down(arm) is not None:
            return None
        try:
            return await self.targets[arm].counts()
        except RequestFailed:
            return None

    async def _examine(self) -> None:
        given = self.assignment
        addresses = {arm: server.grpc for arm, server in given.servers.items() if server.grpc is not None}
        if self.outcome.stopped is not None or given.options.temperature > 0 or not self.recorder.diverged:
            return
        if len(addresses) < len(given.servers):
            return
        async with AsyncExitStack() as stack:
            connections = {arm: await stack.enter_async_context(Connection(url)) for arm, url in addresses.items()}
            examiner = Examiner(connections, given.options, given.dtype, given.runtime)
            self.outcome.divergences = await examine(examiner, self.recorder.diverged)


def _fatal(server: ArmServer) -> str | None:
    return server.fatal()


def _single(level: Level) -> bool:
    return level.traffic.closed and level.concurrency == 1


async def _facts(target: OpenedTarget) -> dict[str, Any]:
    try:
        return (await target.facts()).as_json()
    except RequestFailed as error:
        return {"url": target.url, "reason": error.message}
