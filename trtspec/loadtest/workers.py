"""Several processes that send together: each has its own event loop, one process tells them what to send when.

A worker is `python -m trtspec.loadtest.worker FD`, FD being its end of a socket pair; messages are pickles with their
length before them. It ends when the socket does. Both ends are this program; nothing else can reach them.
"""

from __future__ import annotations

import asyncio
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trtspec.errors import LoadTestFailed
from trtspec.loadtest.crew import Address, Half, block_begin
from trtspec.loadtest.lag import merged_reports
from trtspec.loadtest.records import Record
from trtspec.loadtest.sender import SendOptions
from trtspec.spec.names import Arm

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Orders", "Setup", "WorkerCrew", "aligned", "clock_offset", "receive", "send"]

_LENGTH = 8
_START = 60.0
_END = 5.0
_CLOCK_ROUNDS = 8
_GONE = "gone"


@dataclass(frozen=True)
class Setup:
    """What a worker is told first."""

    index: int
    addresses: Mapping[Arm, Address]
    options: SendOptions


@dataclass(frozen=True)
class Orders:
    """One half of a block for one worker: it sends part `part` of `parts`; `begin_ns` is of its own clock."""

    half: Half
    part: int
    parts: int
    begin_ns: int


def send(writer: asyncio.StreamWriter, *message: Any) -> None:
    """Write a message."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    writer.write(len(data).to_bytes(_LENGTH, "big") + data)


async def receive(reader: asyncio.StreamReader) -> tuple[Any, ...] | None:
    """The next message; None when the other end is gone."""
    try:
        size = int.from_bytes(await reader.readexactly(_LENGTH), "big")
        message: tuple[Any, ...] = pickle.loads(await reader.readexactly(size))  # noqa: S301 - our own process
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return message


def aligned(record: Record, offset_ns: int) -> Record:
    """`record` with the times of a clock that is behind its own by `offset_ns`."""
    if offset_ns == 0:
        return record
    chunks = tuple(replace(chunk, t_ns=chunk.t_ns - offset_ns) for chunk in record.chunks)
    return replace(
        record,
        start_ns=record.start_ns - offset_ns,
        end_ns=record.end_ns - offset_ns,
        scheduled_ns=None if record.scheduled_ns is None else record.scheduled_ns - offset_ns,
        chunks=chunks,
    )


def clock_offset(rounds: list[tuple[int, int, int]]) -> int:
    """By how much another process's clock is ahead of this one's (ns), from (asked, its time, answered).

    Of the quickest round: its time minus the middle of asking and answering, which is wrong by at most half the round.
    0 when that is possible too: on Linux all processes read the same monotonic clock.
    """
    asked, other, answered = min(rounds, key=lambda item: item[2] - item[0])
    offset = other - (asked + answered) // 2
    return 0 if asked <= other <= answered else offset


class _Worker:
    """One worker as its parent sees it."""

    def __init__(self, index: int, on_record: Callable[[Record], None]) -> None:
        self.index = index
        self.offset_ns = 0
        self.down: dict[Arm, str | None] = {}
        # how it ended, once that was heard
        self.gone: str | None = None
        self._on_record = on_record
        self._answers: asyncio.Queue[tuple[Any, ...]] = asyncio.Queue()
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self, setup: Setup) -> None:
        ours, theirs = socket.socketpair()
        argv = [sys.executable, "-m", "trtspec.loadtest.worker", str(theirs.fileno())]
        # a session of its own: Ctrl-C is for the parent alone
        self._process = subprocess.Popen(  # noqa: ASYNC220 - returns at once
            argv, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
        )
        theirs.close()
        self._reader, self._writer = await asyncio.open_connection(sock=ours)
        self._listening = asyncio.create_task(self._listen())
        self.tell("setup", setup)
        await self.answer("ready", timeout=_START)
        self.offset_ns = clock_offset([await self._clock() for _ in range(_CLOCK_ROUNDS)])

    async def _clock(self) -> tuple[int, int, int]:
        asked = time.perf_counter_ns()
        self.tell("clock")
        return asked, (await self.answer("clock"))[0], time.perf_counter_ns()

    def tell(self, *message: Any) -> None:
        """Write a message; one to a worker that is gone is lost, which its `answer` then says."""
        # uvloop raises RuntimeError where asyncio drops what is written to a closed end
        with suppress(OSError, RuntimeError):
            send(self._writer, *message)

    async def answer(self, kind: str, timeout: float | None = None) -> tuple[Any, ...]:
        """The contents of the next message, which must be of `kind`; LoadTestFailed when the worker failed."""
        if self.gone is not None:
            raise LoadTestFailed(f"load process {self.index} failed: {self.gone}")
        try:
            found, *contents = await asyncio.wait_for(self._answers.get(), timeout)
        except asyncio.TimeoutError:
            raise LoadTestFailed(f"load process {self.index} does not answer") from None
        if found == _GONE:
            self.gone = str(contents[0])
        if found != kind:
            raise LoadTestFailed(f"load process {self.index} failed: {' '.join(map(str, contents)) or found}")
        return tuple(contents)

    async def heard(self, kind: str) -> None:
        """Return when it says `kind` or is gone; what it said before is forgotten."""
        while self.gone is None and (message := await self._answers.get())[0] != kind:
            if message[0] == _GONE:
                self.gone = str(message[1])

    async def _listen(self) -> None:
        while (message := await receive(self._reader)) is not None:
            if message[0] == "record":
                self._on_record(aligned(message[1], self.offset_ns))
            else:
                self._answers.put_nowait(message)
        self._answers.put_nowait((_GONE, await asyncio.to_thread(self._end)))

    def _end(self) -> str:
        """How its process came to its end."""
        assert self._process is not None
        try:
            code = self._process.wait(_END)
        except subprocess.TimeoutExpired:
            return "it hung up"
        return f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"it ended with code {code}"

    async def stop(self) -> None:
        if self._process is None:
            return
        self._writer.close()
        self._listening.cancel()
        try:
            await asyncio.to_thread(self._process.wait, _END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class WorkerCrew:
    """`count` processes that send together; a `Crew`."""

    def __init__(
        self,
        count: int,
        addresses: Mapping[Arm, Address],
        options: SendOptions,
        on_record: Callable[[Record], None],
        fatal: Mapping[Arm, Callable[[], str | None]] | None = None,
    ) -> None:
        self._setups = [Setup(index, addresses, options) for index in range(count)]
        self._workers = [_Worker(index, on_record) for index in range(count)]
        self._fatal = fatal or {}

    async def __aenter__(self) -> Self:
        try:
            starts = zip(self._workers, self._setups, strict=True)
            await asyncio.gather(*(worker.start(setup) for worker, setup in starts))
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(worker.stop() for worker in self._workers), return_exceptions=True)

    async def run(self, half: Half) -> None:
        """See `Crew`."""
        begin_ns = block_begin(half)
        parts = len(self._workers)
        for part, worker in enumerate(self._workers):
            worker.tell("run", Orders(half, part, parts, begin_ns + worker.offset_ns))
        try:
            await self._all("mine")
            await self._tell_all("over")
        except (asyncio.CancelledError, LoadTestFailed):
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._cancelled(), _END)
            raise

    async def _tell_all(self, word: str) -> None:
        for worker in self._workers:
            worker.tell(word)
        for worker in self._workers:
            worker.down = (await worker.answer("ended"))[0]

    async def _all(self, kind: str) -> None:
        for worker in self._workers:
            await worker.answer(kind)

    async def _cancelled(self) -> None:
        for worker in self._workers:
            worker.tell("cancel")
        for worker in self._workers:
            await worker.heard("cancelled")

    def down(self, arm: Arm) -> str | None:
        """See `Crew`."""
        fatal = self._fatal.get(arm, lambda: None)()
        if fatal is not None:
            return f"{arm} arm: {fatal}"
        return next((reason for worker in self._workers if (reason := worker.down.get(arm))), None)

    async def report(self) -> dict[str, Any]:
        """See `Crew`, of the processes that still answer.

        `processes` has each process's own, with the offset of its clock that was taken out (ns).
        """
        reports = []
        for worker in self._workers:
            # one that is gone or stuck has nothing to say; what the others measured is no less true
            with suppress(LoadTestFailed):
                worker.tell("report")
                report = (await worker.answer("report", _END))[0]
                reports.append({**report, "worker": worker.index, "clock_offset_ns": worker.offset_ns})
        return merged_reports(reports)
