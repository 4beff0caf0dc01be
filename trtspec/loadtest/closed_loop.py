"""A closed loop: a fixed number of connections, each sending its next request when its last one has ended."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Awaitable, Callable

from trtspec.loadtest.plan import Block, Job

__all__ = ["run_closed_loop"]

Send = Callable[[Job], Awaitable[None]]


async def run_closed_loop(block: Block, concurrency: int, *, ramp: float, send: Send) -> None:
    """Send a block's jobs over `concurrency` connections, which start one after another over `ramp` seconds.

    A connection goes from the lead-in to measured jobs without waiting for the others, and when no job is left it
    keeps the load up with fill jobs. When the last measured job has ended, what is still running is cancelled.
    """
    queue = deque([*block.lead_in, *block.jobs])
    progress = _Progress(len(block.jobs))
    fill = itertools.cycle(block.fill)

    async def connection(index: int) -> None:
        await asyncio.sleep(ramp * index / concurrency)
        while queue:
            job = queue.popleft()
            await send(job)
            progress.ended(job)
        while block.fill and not progress.done.is_set():
            await send(next(fill))
            # a server that fails at once must not turn this into a busy loop
            await asyncio.sleep(0.001)

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
        self.done = asyncio.Event()

    def ended(self, job: Job) -> None:
        self._left -= job.excluded is None
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
