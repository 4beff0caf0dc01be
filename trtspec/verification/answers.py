"""Asking an arm many things at once, and keeping what it answered."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trtspec.errors import RequestFailed
from trtspec.loadtest.arms import ArmServer
from trtspec.loadtest.jobs import Job
from trtspec.loadtest.records import Record, concurrency_label
from trtspec.loadtest.sender import ArmClient, Place, SendOptions
from trtspec.spec.names import BASELINE_ARM, Arm
from trtspec.wire import OpenedTarget, open_target

if TYPE_CHECKING:
    from collections.abc import Awaitable

__all__ = ["Sample", "SamplePlan", "ask_arm", "at_once", "sample_arm"]

_READY = 30.0


async def at_once(work: Sequence[Callable[[], Awaitable[None]]], concurrency: int) -> None:
    """Do all of it, `concurrency` pieces at a time, in order."""
    left = deque(work)

    async def connection() -> None:
        while left:
            await left.popleft()()

    tasks = [asyncio.create_task(connection()) for _ in range(min(concurrency, len(work)))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _opened(server: ArmServer) -> OpenedTarget:
    await asyncio.to_thread(server.activate)
    return open_target(server.url, kind=server.kind, model=server.model)


async def ask_arm(
    arm: Arm, server: ArmServer, options: SendOptions, levels: Sequence[tuple[int, Sequence[Job]]], keep: Any
) -> None:
    """Send the jobs of every (concurrency, jobs) to an arm, one level after the other; records go to `keep`."""
    async with await _opened(server) as target:
        await target.wait_ready(timeout=_READY)
        client = ArmClient(arm, target, options, keep, server.fatal)
        for concurrency, jobs in levels:
            place = Place(concurrency_label(concurrency), concurrency, 0, int(arm != BASELINE_ARM))
            await at_once([_sending(client, job, place) for job in jobs], concurrency)


def _sending(client: ArmClient, job: Job, place: Place) -> Callable[[], Awaitable[None]]:
    async def send() -> None:
        await client.send_chain([job], place)

    return send


@dataclass(frozen=True)
class Sample:
    """One short answer: its token ids where the server tells them, its text, or why there is none."""

    prompt: int
    ids: tuple[int, ...] | None = None
    text: str = ""
    error: str | None = None


@dataclass(frozen=True)
class SamplePlan:
    """(number of its prompt, job) of every sample, so many at a time."""

    jobs: Sequence[tuple[int, Job]]
    concurrency: int


async def sample_arm(
    arm: Arm, server: ArmServer, options: SendOptions, plan: SamplePlan, tell: Callable[[Sample], None]
) -> None:
    """Draw every sample of a plan; after 3 failures in a row the rest is not sent."""
    async with await _opened(server) as target:
        await target.wait_ready(timeout=_READY)
        drawing = _Drawing(ArmClient(arm, target, options, _dropped), tell)
        await at_once([drawing.of(number, job) for number, job in plan.jobs], plan.concurrency)


def _dropped(record: Record) -> None:
    del record


_GIVE_UP = 3


class _Drawing:
    def __init__(self, client: ArmClient, tell: Callable[[Sample], None]) -> None:
        self._client, self._tell = client, tell
        self._failures = 0

    def of(self, number: int, job: Job) -> Callable[[], Awaitable[None]]:
        async def draw() -> None:
            self._tell(await self._draw(number, job))

        return draw

    async def _draw(self, number: int, job: Job) -> Sample:
        if self._failures >= _GIVE_UP:
            return Sample(number, error="not sent: the requests before failed")
        request = replace(self._client.request(job), token_details=True)
        ids: list[int] = []
        pieces: list[str] = []
        told = False
        try:
            stream = self._client.target.stream(request, timeout=self._client.options.timeout)
            async with aclosing(stream) as chunks:
                async for chunk in chunks:
                    pieces.append(chunk.text)
                    if chunk.details is not None:
                        told = True
                        ids += chunk.details.ids
        except RequestFailed as error:
            self._failures += 1
            return Sample(number, error=error.message)
        self._failures = 0
        return Sample(number, tuple(ids) if told else None, "".join(pieces))
