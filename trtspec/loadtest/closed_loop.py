"""A closed loop: a fixed number of connections, each sending its next request when its last one has ended."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Awaitable, Callable

from trtspec.loadtest.plan import Block, Job

__all__ = ["run_closed_loop"]

# a server that fails at once must not turn padding into a busy loop
_BREATH = 0.001

Send = Callable[[Job], Awaitable[None]]


async def run_closed_loop(block: Block, concurrency: int, *, ramp: float, send: Send) -> None:
    """Send a block's jobs over `concurrency` connections, which start one after another over `ramp` seconds.

    Connections send lead-in jobs until the last one has started, then go on with measured jobs without waiting for one
    another, and when none is left they keep the load up with fill jobs. When the last measured job has ended, what is
    still running is cancelled.
    """
    lead_in, measured = deque(block.lead_in), deque(block.jobs)
    more_lead_in, fill = itertools.cycle(block.lead_in), itertools.cycle(block.fill)
    progress = _Progress(len(block.jobs))

    async def connection(index: int) -> None:
        await asyncio.sleep(ramp * index / concurrency)
        if index == concurrency - 1:
            progress.all_started = True
        while lead_in or (block.lead_in and not progress.all_started):
            await send(lead_in.popleft() if lead_in else next(more_lead_in))
            await asyncio.sleep(_BREATH)
        while measured:
            await send(measured.popleft())
            progress.one_ended()
        while block.fill and not progress.done.is_set():
            await send(next(fill))
            await asyncio.sleep(_BREATH)

    connections = [asyncio.create_task(connection(index)) for index in range(concurrency)]
    try:
        await _first(progress.done, connections)
    finally:
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


class _Progress:
    def __init__(self, measured: int) -> None:
        self._left = measured
        self.all_started = False
        self.done = asyncio.Event()

    def one_ended(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.done.set()


async def _first(done: asyncio.Event, connections: list[asyncio.Task[None]]) -> None:
    """Return when the block is done; an exception in a connection is raised."""
    waiter = asyncio.create_task(done.wait())
    try:
        pending: set[asyncio.Task[object]] = {waiter, *connections}
        while not done.is_set() and pending != {waiter}:
            finished, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in finished:
                task.result()
    finally:
        waiter.cancel()
