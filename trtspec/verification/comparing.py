"""Asking both arms the same prompts, and examining the places where greedy answers part."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trtspec.loadtest.arms import ArmServer
from trtspec.loadtest.divergence import Diverged, Examiner, examine
from trtspec.loadtest.jobs import Job
from trtspec.loadtest.prompts import Prompt, draw
from trtspec.loadtest.records import Record, RecordWriter
from trtspec.loadtest.sender import SendOptions
from trtspec.spec.names import ARMS, Arm
from trtspec.verification.answers import ask_arm
from trtspec.verification.options import VerifyOptions
from trtspec.wire import Connection

__all__ = ["Comparison", "job_seed", "jobs_of"]

_SEED_STRIDE = 1_000_003


def job_seed(seed: int, index: int) -> int:
    """The sampling seed of request number `index`, below 2⁶³."""
    return (seed * _SEED_STRIDE + index) % (1 << 63)


def jobs_of(prompts: Sequence[Prompt], options: VerifyOptions) -> list[Job]:
    """Each prompt once, at most as many as asked for, categories even; later turns of conversations are left out."""
    alone = [prompt for prompt in prompts if not prompt.turn]
    rng = random.Random(f"{options.load.seed}/verify")  # noqa: S311 - order, no secret
    chosen = draw(alone, min(options.load.requests, len(alone)), rng)
    limit = options.load.max_tokens
    return [
        Job(prompt, prompt.id, job_seed(options.load.seed, index), limit or prompt.max_tokens)
        for index, prompt in enumerate(chosen)
    ]


@dataclass
class Comparison:
    """Both arms' answers to `jobs` at every concurrency; `tell` is called after each."""

    servers: Mapping[Arm, ArmServer]
    send: SendOptions
    levels: Sequence[int]
    jobs: Sequence[Job]
    file: Path
    tell: Callable[[], None]
    records: list[Record] = field(default_factory=list)

    async def ask(self) -> None:
        """Ask one arm after the other; every record is written to the file as it ends."""
        with RecordWriter(self.file) as writer:

            def keep(record: Record) -> None:
                writer.write(record)
                self.records.append(record)
                self.tell()

            for arm in ARMS:
                levels = [(concurrency, self.jobs) for concurrency in self.levels]
                await ask_arm(arm, self.servers[arm], self.send, levels, keep)

    def out_of_reach(self) -> str | None:
        """Why nothing can be examined; None when it can."""
        if all(server.grpc is not None for server in self.servers.values()):
            return None
        if any(server.launch_seconds is not None for server in self.servers.values()):
            return "one server runs at a time, and both are asked again"
        return "logits come from Triton's gRPC: --arm-url ARM=HOST:PORT for both arms"

    async def examine(
        self, diverged: Sequence[Diverged], dtype: str | None, runtime: str | None
    ) -> list[dict[str, Any]]:
        """Every divergence, examined; nothing where the servers are out of reach."""
        addresses = {arm: server.grpc for arm, server in self.servers.items() if server.grpc is not None}
        if not diverged or self.out_of_reach() is not None:
            return []
        async with AsyncExitStack() as stack:
            connections = {arm: await stack.enter_async_context(Connection(url)) for arm, url in addresses.items()}
            return await examine(Examiner(connections, self.send, dtype, runtime), diverged, limit=None)
