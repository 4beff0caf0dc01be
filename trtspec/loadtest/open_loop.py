"""An open loop: requests are sent when they are due, whatever has become of those before."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass

from trtspec.loadtest.descriptors import places
from trtspec.loadtest.share import Finish, Piece, Send, Share

__all__ = ["Due", "arrivals_of", "run_open_loop"]

_NS = 1e9


@dataclass(frozen=True)
class Due:
    """A piece, when it is due (seconds from the block's begin), and whether it is measured."""

    at: float
    piece: Piece
    measured: bool


def arrivals_of(share: Share, lead: float) -> Iterator[Due]:
    """Everything that a share sends in order, without end: `lead` seconds before the block, the block, and after it.

    What is not measured arrives by chance at the block's own rate, the same in both arms.
    """
    block, turn = share.block, share.part
    before = _chance(block.rates[0], f"lead-in {block.index}")
    offsets = list(itertools.takewhile(lambda offset: offset < lead, before))
    lead_in = itertools.cycle(block.lead_in)
    for index, offset in enumerate(reversed(offsets)):
        job = next(lead_in)
        if index % share.parts == turn:
            yield Due(-offset, (job,), False)
    for piece in share.pieces:
        yield Due(piece[0].at or 0.0, piece, True)
    last = max((job.at or 0.0 for job in block.jobs), default=0.0)
    fill = zip(_chance(block.rates[1], f"fill {block.index}"), itertools.cycle(block.fill), strict=False)
    for index, (offset, job) in enumerate(fill):
        if index % share.parts == turn:
            yield Due(last + offset, (job,), False)


def _chance(rate: float, seed: str) -> Iterator[float]:
    rng = random.Random(seed)  # noqa: S311 - reproducible times, no secret
    place = 0.0
    while True:
        place += rng.expovariate(rate)
        yield place


async def run_open_loop(share: Share, *, begin_ns: int, lead: float, send: Send, finish: Finish) -> None:
    """Send a block's jobs when they are due, the block beginning at `begin_ns` (`time.perf_counter_ns()`).

    For `lead` seconds before it the load is the same, but not measured. A request's latency counts from
    when it was due, so a client or server that falls behind does not
    hide it. Where the requests in flight are limited, one that is due waits for a place. When the last measured job has
    ended, what is still running is cancelled.
    """
    running: set[asyncio.Task[None]] = set()
    place = _places(share)

    async def one(due: Due, due_ns: int) -> None:
        async with place():
            await send(due.piece, due_ns)
        if due.measured:
            finish.one_ended()

    async def sender() -> None:
        for due in arrivals_of(share, lead):
            due_ns = begin_ns + round(due.at * _NS)
            await asyncio.sleep(max(0.0, (due_ns - time.perf_counter_ns()) / _NS))
            task = asyncio.create_task(one(due, due_ns))
            running.add(task)
            task.add_done_callback(running.discard)
            finish.watch(task)

    sending = asyncio.create_task(sender())
    try:
        await finish.wait([sending])
    finally:
        left = [sending, *running]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def _places(share: Share) -> Callable[[], AbstractAsyncContextManager[object]]:
    """What holds back a request while too many are in flight: more than asked for, or than files may be open."""
    limits = [places()]
    if share.traffic.in_flight is not None:
        limits.append(max(1, len(range(share.part, share.traffic.in_flight, share.parts))))
    limit = min((limit for limit in limits if limit is not None), default=None)
    if limit is None:
        return nullcontext
    held = asyncio.Semaphore(limit)
    return lambda: held
