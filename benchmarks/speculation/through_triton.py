"""Both arms as clients see them: the real Triton on the generated repository."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from benchmarks.speculation.pair import Question
from benchmarks.speculation.samples import Sample, Stopwatch
from trtspec.serving import RunningServer
from trtspec.spec import ARMS, Arm
from trtspec.wire import Connection, Counters, FrontendRequest

__all__ = ["ThroughTriton", "Throughput", "throughputs"]

NAMES: dict[Arm, str] = {"speculative": "through Triton", "baseline": "through Triton, baseline"}


@dataclass(frozen=True)
class Throughput:
    """Tokens and seconds of an arm under `concurrency` streams, and its texts."""

    arm: Arm
    concurrency: int
    tokens: int
    seconds: float
    texts: tuple[str, ...]


class ThroughTriton:
    """One arm's server."""

    def __init__(self, server: RunningServer, arm: Arm) -> None:
        self._url, self._arm = server.grpc_url, arm

    def ask(self, question: Question, max_tokens: int) -> Sample:
        """One answer, alone on the server."""
        return asyncio.run(self._alone(question, max_tokens))

    def together(self, asked: Sequence[Question], max_tokens: int, concurrency: int) -> Throughput:
        """All answers, `concurrency` at a time."""
        return asyncio.run(self._together(asked, max_tokens, concurrency))

    async def _alone(self, question: Question, max_tokens: int) -> Sample:
        async with Connection(self._url) as connection:
            return await self._one(connection, question, max_tokens)

    async def _together(self, asked: Sequence[Question], max_tokens: int, concurrency: int) -> Throughput:
        places = asyncio.Semaphore(concurrency)

        async def one(question: Question) -> Sample:
            async with places:
                return await self._one(connection, question, max_tokens)

        async with Connection(self._url) as connection:
            started = time.perf_counter()
            samples = await asyncio.gather(*map(one, asked))
            seconds = time.perf_counter() - started
        tokens = sum(sample.tokens for sample in samples)
        return Throughput(self._arm, concurrency, tokens, seconds, tuple(sample.text for sample in samples))

    async def _one(self, connection: Connection, question: Question, max_tokens: int) -> Sample:
        watch, text, counters, first = Stopwatch(), "", Counters(), None
        request = FrontendRequest(question.text, max_tokens)
        async with aclosing(connection.stream(request, timeout=600)) as chunks:
            async for chunk in chunks:
                text += chunk.text
                counters = chunk.counters or counters
                watch.saw(counters.num_output_tokens or 0, chunk.t_ns / 1e9)
                first = counters if first is None else first
        speculative = self._arm == "speculative"
        begun = (first.num_spec_steps or 0) if first is not None else 0
        return Sample(
            NAMES[self._arm],
            question.id,
            question.category,
            **watch.times(counters.num_output_tokens or 0),
            text=text,
            rounds=(counters.num_spec_steps or 0) - begun if speculative else None,
            drafted=counters.num_draft_tokens if speculative else None,
            accepted=counters.num_accepted_tokens if speculative else None,
        )


def throughputs(
    servers: Mapping[Arm, RunningServer],
    asked: Sequence[Question],
    max_tokens: int,
    levels: Sequence[int],
    repeats: int,
) -> list[Throughput]:
    """Every arm at every level, the arms in turn."""
    return [
        ThroughTriton(servers[arm], arm).together(asked, max_tokens, level)
        for level in levels
        for turn in range(repeats)
        for arm in (ARMS if turn % 2 else ARMS[::-1])
    ]
