"""One whole answer of the frontend: its text, its tokens, and how fast it came."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from trtspec.wire.connection import stream
from trtspec.wire.messages import Chunk, Counters, FrontendRequest

__all__ = ["Answer", "ask"]


@dataclass
class Answer:
    """What one request brought, with the times at which it came (seconds since it was sent)."""

    text: str = ""
    finish_reason: str = ""
    counters: Counters = field(default_factory=Counters)
    token_ids: list[int] = field(default_factory=list)
    token_texts: list[str] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    seconds: float = 0.0
    time_to_first_token: float | None = None

    def add(self, chunk: Chunk, seconds: float) -> None:
        """Take in a chunk that arrived after `seconds`."""
        self.text += chunk.text
        self.finish_reason = chunk.finish_reason or self.finish_reason
        self.counters = chunk.counters or self.counters
        if chunk.details is not None:
            self.token_ids += chunk.details.ids
            self.token_texts += chunk.details.texts
            self.sources += chunk.details.sources
        if chunk.text and self.time_to_first_token is None:
            self.time_to_first_token = seconds
        self.seconds = seconds

    @property
    def drafted(self) -> list[bool]:
        """For each token whether it was proposed and accepted."""
        return list(map(bool, self.sources))

    @property
    def acceptance_rate(self) -> float | None:
        """**Formula:** accepted / drafted tokens, without the target's own; None when nothing was drafted."""
        drafted, accepted = self.counters.num_draft_tokens, self.counters.num_accepted_tokens
        return accepted / drafted if drafted and accepted is not None else None

    @property
    def mean_acceptance_length(self) -> float | None:
        """**Formula:** 1 + accepted tokens / rounds; None without a round."""
        rounds, accepted = self.counters.num_spec_steps, self.counters.num_accepted_tokens
        return 1 + accepted / rounds if rounds and accepted is not None else None

    @property
    def tokens_per_second(self) -> float | None:
        """**Formula:** output tokens / seconds from sending to the last response; None when they were not counted."""
        tokens = self.counters.num_output_tokens
        return tokens / self.seconds if tokens is not None and self.seconds > 0 else None


async def ask(url: str, request: FrontendRequest, *, timeout: float, on_chunk: Callable[[Chunk], None]) -> Answer:
    """Send one request and hand every chunk to `on_chunk` as it arrives; RequestFailed as `stream` raises it."""
    answer, begin = Answer(), time.perf_counter_ns()
    async with aclosing(stream(url, request, timeout=timeout)) as chunks:
        async for chunk in chunks:
            answer.add(chunk, (chunk.t_ns - begin) / 1e9)
            on_chunk(chunk)
    return answer
