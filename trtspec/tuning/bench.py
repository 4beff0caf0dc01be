"""Sending blocks to the baseline and to every candidate, which are one server asked for different draft lengths."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from trtspec.errors import ServerUnreachable, UsageError
from trtspec.loadtest.arms import ArmServer
from trtspec.loadtest.crew import Half, block_begin, run_half
from trtspec.loadtest.plan import Block
from trtspec.loadtest.records import Record
from trtspec.loadtest.sender import ArmClient, SendOptions
from trtspec.loadtest.share import Finish, Share
from trtspec.spec.names import ARMS, BASELINE_ARM, SPECULATIVE, Arm
from trtspec.tuning.options import BASELINE, draft_length_of
from trtspec.tuning.plan import LevelPlan
from trtspec.wire import OpenedTarget, open_target

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Bench"]

_READY = 30.0
_FIRST_RAMP = 0.5
_LONGEST_RAMP = 10.0
_RECENT = 50
# kinds of target that draft as many tokens as a request says
_TAKE_LENGTHS = ("triton-grpc", "triton-http", "nvidia-bls")


def _fatal(server: ArmServer) -> str | None:
    """Asked of the server as it is then: it may have been started anew."""
    return server.fatal()


@dataclass
class Bench:
    """Both arms' servers; every record goes to `on_record`."""

    servers: Mapping[Arm, ArmServer]
    options: SendOptions
    on_record: Callable[[Record], None]
    _targets: dict[Arm, OpenedTarget] = field(default_factory=dict)
    _clients: dict[str, ArmClient] = field(default_factory=dict)
    _seconds: dict[str, deque[float]] = field(default_factory=dict)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for arm in ARMS:
                server = self.servers[arm]
                await asyncio.to_thread(server.activate)
                target = open_target(server.url, kind=server.kind, model=server.model)
                self._targets[arm] = await stack.enter_async_context(target)
                await target.wait_ready(timeout=_READY)
                if arm == SPECULATIVE:
                    await self._check_lengths()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _check_lengths(self) -> None:
        facts = await self._targets[SPECULATIVE].facts()
        if facts.kind not in _TAKE_LENGTHS:
            fix = "tune trtspec's or NVIDIA's Triton models; compare other servers with trtspec loadtest --a --b"
            raise UsageError(f"{facts.url} ({facts.kind}) takes no draft length with a request", fix=fix)

    async def run(self, plan: LevelPlan, block: Block, candidate: str, order: int) -> float:
        """Send a block to a candidate (or the baseline); seconds of it. ServerUnreachable when its server is gone."""
        arm: Arm = BASELINE_ARM if candidate == BASELINE else SPECULATIVE
        client = self._client(candidate, arm)
        half = Half(arm, plan.for_candidate(block, candidate), plan.traffic, order, self._ramp(candidate, plan))
        share = Share(half.block, half.traffic)
        await asyncio.to_thread(self.servers[arm].activate)
        begin = time.perf_counter()
        await run_half(client, half, share, Finish(len(share.pieces)), begin_ns=block_begin(half))
        if client.down is not None:
            raise ServerUnreachable(f"the search was stopped: {client.down}")
        return time.perf_counter() - begin

    def _client(self, candidate: str, arm: Arm) -> ArmClient:
        if candidate not in self._clients:
            options = replace(self.options, draft_length=None if arm == BASELINE_ARM else draft_length_of(candidate))
            server = self.servers[arm]

            def keep(record: Record) -> None:
                if record.ok:
                    seconds = self._seconds.setdefault(candidate, deque(maxlen=_RECENT))
                    seconds.append((record.end_ns - record.start_ns) * 1e-9)
                self.on_record(record)

            self._clients[candidate] = ArmClient(arm, self._targets[arm], options, keep, partial(_fatal, server))
        return self._clients[candidate]

    def _ramp(self, candidate: str, plan: LevelPlan) -> float:
        """About the time of one answer, so that connections are spread evenly over it."""
        seconds = self._seconds.get(candidate)
        if plan.concurrency == 1:
            return 0.0
        return _FIRST_RAMP if not seconds else min(_LONGEST_RAMP, sum(seconds) / len(seconds))
