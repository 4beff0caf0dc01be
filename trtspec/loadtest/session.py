"""The measurement itself: both arms in turn, block after block, until the plan or the patience ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from trtspec.errors import RequestFailed
from trtspec.loadtest.arms import ArmServer
from trtspec.loadtest.closed_loop import run_closed_loop
from trtspec.loadtest.divergence import Examiner, examine
from trtspec.loadtest.lag import SelfCheck
from trtspec.loadtest.pairing import make_pairs
from trtspec.loadtest.plan import Block, Level, total_requests
from trtspec.loadtest.prompts import Prompt
from trtspec.loadtest.records import Record, RecordWriter
from trtspec.loadtest.run_folder import RunFolder
from trtspec.loadtest.selection import group_records
from trtspec.loadtest.sender import ArmClient, Place, SendOptions
from trtspec.loadtest.status import Listener, Tracker
from trtspec.spec.names import FRONTEND_MODEL, TARGET_MODEL, Arm
from trtspec.wire import Connection, model_counts, wait_ready

__all__ = ["Assignment", "Outcome", "measure"]

_READY = 30.0
# the longest time over which connections of a level start
_LONGEST_RAMP = 2.0
_FIRST_RAMP = 0.5


@dataclass(frozen=True)
class Assignment:
    """What is to be measured, where, and who is told."""

    servers: Mapping[Arm, ArmServer]
    levels: Sequence[Level]
    prompts: Sequence[Prompt]
    options: SendOptions
    folder: RunFolder
    dtype: str | None = None
    listener: Listener | None = None


@dataclass
class Outcome:
    """How the measurement went. `stopped` tells why it ended early; divergences are those that were examined."""

    records: list[Record] = field(default_factory=list)
    servers: list[dict[str, Any]] = field(default_factory=list)
    client: dict[str, Any] = field(default_factory=dict)
    divergences: list[dict[str, Any]] = field(default_factory=list)
    stopped: str | None = None
    interrupted: bool = False

    def as_json(self) -> dict[str, Any]:
        """The content of measurement.json."""
        return {
            "schema": 1,
            "interrupted": self.interrupted,
            "stopped": self.stopped,
            "client": self.client,
            "servers": self.servers,
        }


def measure(assignment: Assignment) -> Outcome:
    """Send everything and record it; Ctrl-C ends it early with what there is. ServerUnreachable before it begins."""
    return asyncio.run(_measure(assignment))


async def _measure(assignment: Assignment) -> Outcome:
    outcome = Outcome()
    work = asyncio.create_task(_Session(assignment, outcome).run())
    with _on_interrupt(work):
        try:
            await work
        except asyncio.CancelledError:
            outcome.interrupted = True
    return outcome


@contextlib.contextmanager
def _on_interrupt(work: asyncio.Task[None]) -> Any:
    """Ctrl-C cancels `work`; a second one is Python's own KeyboardInterrupt again."""
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        work.cancel()

    # only the main thread may; elsewhere (a test) Ctrl-C stays as it is
    with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
        loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
            loop.remove_signal_handler(signal.SIGINT)


class _Session:
    def __init__(self, assignment: Assignment, outcome: Outcome) -> None:
        self._assignment = assignment
        self._outcome = outcome
        self._tracker = Tracker(total_requests(assignment.levels))
        self._clients: dict[Arm, ArmClient] = {}

    async def run(self) -> None:
        async with AsyncExitStack() as stack:
            writer = stack.enter_context(RecordWriter(self._assignment.folder.requests))
            for arm, server in self._assignment.servers.items():
                connection = await stack.enter_async_context(Connection(server.url))
                await wait_ready(connection, timeout=_READY)
                on_record = partial(self._record, writer)
                self._clients[arm] = ArmClient(arm, connection, self._assignment.options, on_record, server.fatal)
            check = await stack.enter_async_context(SelfCheck())
            try:
                async with _frozen_heap():
                    await self._levels()
            finally:
                self._outcome.client = check.result()
            await self._examine()

    def _record(self, writer: RecordWriter, record: Record) -> None:
        writer.write(record)
        self._outcome.records.append(record)
        status = self._tracker.add(record)
        if self._assignment.listener is not None:
            self._assignment.listener(status)

    async def _levels(self) -> None:
        for level in self._assignment.levels:
            before = {arm: await _counts(client) for arm, client in self._clients.items()}
            for block in level.blocks:
                await self._block(level, block)
            for arm, client in self._clients.items():
                self._outcome.servers.append(_growth(arm, level, before[arm], await _counts(client)))

    async def _block(self, level: Level, block: Block) -> None:
        for order, arm in enumerate(block.order):
            client, place = self._clients[arm], Place(level.concurrency, block.index, order)
            if self._outcome.stopped is not None:
                self._skip(client, block, place)
                continue
            send = partial(client.send, place=place)
            await run_closed_loop(block, level.concurrency, ramp=self._ramp(arm, level), send=send)
            self._outcome.stopped = client.down

    def _skip(self, client: ArmClient, block: Block, place: Place) -> None:
        """Of an arm whose server is gone, what was planned counts as failed; the other arm's is left out."""
        if client.down is not None:
            for job in block.jobs:
                client.skip(job, place)

    def _ramp(self, arm: Arm, level: Level) -> float:
        """About the time of one answer, so that connections are spread evenly over it."""
        if level.concurrency == 1:
            return 0.0
        times = [(r.end_ns - r.start_ns) * 1e-9 for r in self._outcome.records[-50:] if r.arm == arm and r.ok]
        return min(_LONGEST_RAMP, sum(times) / len(times)) if times else _FIRST_RAMP

    async def _examine(self) -> None:
        if self._outcome.stopped is not None or self._assignment.options.temperature > 0:
            return
        prompts = {prompt.id: prompt for prompt in self._assignment.prompts}
        examiner = Examiner(self._clients, prompts, self._assignment.dtype)
        self._outcome.divergences = await examine(examiner, make_pairs(group_records(self._outcome.records)))


@asynccontextmanager
async def _frozen_heap() -> AsyncIterator[None]:
    """Keep the garbage collector from walking what was there before, which would stop the loop for a while."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


Counts = Mapping[str, int]


async def _counts(client: ArmClient) -> Counts | None:
    """Requests that each model answered since it was loaded; None when the server does not tell."""
    if client.down is not None:
        return None
    try:
        return {name: counts.success for name, counts in (await model_counts(client.connection)).items()}
    except RequestFailed:
        return None


def _growth(arm: Arm, level: Level, before: Counts | None, after: Counts | None) -> dict[str, Any]:
    def grown(model: str) -> int | None:
        if before is None or after is None or model not in after:
            return None
        return after[model] - before.get(model, 0)

    return {
        "arm": arm,
        "concurrency": level.concurrency,
        "frontend_requests": grown(FRONTEND_MODEL),
        "target_requests": grown(TARGET_MODEL),
    }
