"""What one process sends of a block, and when the block is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from trtspec.loadtest.arrivals import Traffic
from trtspec.loadtest.jobs import Job, chains
from trtspec.loadtest.plan import Block

__all__ = ["Finish", "Piece", "Send", "Share"]

Piece = tuple[Job, ...]
# sends a piece's jobs in order; the first was due at this time (ns), None: now
Send = Callable[[Piece, int | None], Awaitable[None]]


@dataclass(frozen=True)
class Share:
    """Part `part` of `parts` of a block: every so many-th connection or arrival, and what belongs to it."""

    block: Block
    traffic: Traffic
    part: int = 0
    parts: int = 1

    @property
    def connections(self) -> range:
        """Its connections' places among all."""
        return range(self.part, self.traffic.concurrency, self.parts)

    @property
    def pieces(self) -> list[Piece]:
        """Its measured jobs: as many a connection as everywhere."""
        whole = chains(self.block.jobs)
        among = self.traffic.concurrency if self.traffic.closed else self.parts
        return [piece for index, piece in enumerate(whole) if (index % among) % self.parts == self.part]

    def of(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """Its part of the jobs that are not measured."""
        return jobs[self.part :: self.parts] or jobs


class Finish:
    """Counts measured pieces; `over` is set when the last one of the block has ended, in whichever process.

    `on_mine` is called when all of this process have; without it there is no other process.
    """

    def __init__(self, pieces: int, on_mine: Callable[[], None] | None = None) -> None:
        self._left = pieces
        self._on_mine = on_mine
        self._error: BaseException | None = None
        self.over = asyncio.Event()
        if pieces == 0:
            self._mine_ended()

    def one_ended(self) -> None:
        """A measured piece has ended, well or not."""
        self._left -= 1
        if self._left == 0:
            self._mine_ended()

    def _mine_ended(self) -> None:
        if self._on_mine is None:
            self.over.set()
        else:
            self._on_mine()

    def failed(self, error: BaseException) -> None:
        """Something that no request can be blamed for: the block is over, and `wait` raises it."""
        self._error = self._error or error
        self.over.set()

    async def wait(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        """Return when the block is over; what a task raises is raised here."""
        for task in tasks:
            self.watch(task)
        await self.over.wait()
        if self._error is not None:
            raise self._error

    def watch(self, task: asyncio.Task[None]) -> None:
        """An exception in `task` ends the block."""
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.failed(error)
