"""A closed loop: a fixed number of connections, each sending its next request when its last one has ended."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque

from trtspec.loadtest.share import Finish, Send, Share

__all__ = ["run_closed_loop"]

# a server that fails at once must not turn padding into a busy loop
_BREATH = 0.001


async def run_closed_loop(share: Share, *, ramp: float, send: Send, finish: Finish) -> None:
    """Send a block's jobs over its connections, which start one after another over `ramp` seconds.

    Connections send lead-in jobs until the last one has started, then go on with measured jobs without waiting for one
    another, and when none is left they keep the load up with fill jobs. When the last measured job has ended, what is
    still running is cancelled.
    """
    block, connections = share.block, share.traffic.concurrency
    lead_in, measured = deque(share.of(block.lead_in)), deque(share.pieces)
    more_lead_in, fill = itertools.cycle(share.of(block.lead_in)), itertools.cycle(share.of(block.fill))
    begin = asyncio.get_running_loop().time()
    last_starts = begin + ramp * (connections - 1) / connections

    def all_started() -> bool:
        return asyncio.get_running_loop().time() >= last_starts

    async def connection(index: int) -> None:
        await asyncio.sleep(ramp * index / connections)
        while lead_in or (block.lead_in and not all_started()):
            await send((lead_in.popleft() if lead_in else next(more_lead_in),), None)
            await asyncio.sleep(_BREATH)
        while measured:
            await send(measured.popleft(), None)
            finish.one_ended()
        while block.fill and not finish.over.is_set():
            await send((next(fill),), None)
            await asyncio.sleep(_BREATH)

    tasks = [asyncio.create_task(connection(index)) for index in share.connections]
    try:
        await finish.wait(tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
