"""Sending one request to one arm and recording what came back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from trtspec.errors import RequestFailed
from trtspec.loadtest.plan import Job
from trtspec.loadtest.records import ChunkRecord, Record
from trtspec.spec.names import SPECULATIVE, Arm
from trtspec.wire import CONNECTION_CODES, Chunk, Connection, Counters, FrontendRequest

__all__ = ["ArmClient", "Place", "SendOptions"]

# after so many failures in a row that speak of the server, it is given up
_GIVE_UP = 3


@dataclass(frozen=True)
class SendOptions:
    """What all requests have in common; `render` turns a user message into the prompt text."""

    render: Callable[[str], str]
    temperature: float = 0.0
    timeout: float = 120.0
    draft_length: int | None = None
    synthetic: bool = False


@dataclass(frozen=True)
class Place:
    """Where in the plan a request belongs: concurrency, block, and whether its arm went first (0) or second (1)."""

    concurrency: int
    block: int
    order: int


@dataclass
class _Answer:
    chunks: list[ChunkRecord] = field(default_factory=list)
    counters: Counters | None = None
    finish_reason: str = ""

    def add(self, chunk: Chunk) -> None:
        self.counters = chunk.counters or self.counters
        self.finish_reason = chunk.finish_reason or self.finish_reason
        # the closing message of a stream carries nothing
        if chunk.text or chunk.tokens:
            self.chunks.append(ChunkRecord(chunk.t_ns, chunk.text, chunk.tokens))


class ArmClient:
    """One arm's connection: sends jobs, hands every record to `on_record`, and knows when its server is gone.

    `fatal` tells why the server will never answer again, None when it may.
    """

    def __init__(
        self,
        arm: Arm,
        connection: Connection,
        options: SendOptions,
        on_record: Callable[[Record], None],
        fatal: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.arm = arm
        self.connection = connection
        self.options = options
        self.down: str | None = None
        self._on_record = on_record
        self._fatal = fatal
        self._failures_in_a_row = 0

    def request(self, job: Job) -> FrontendRequest:
        """The request of a job: greedy without sampling fields at temperature 0."""
        sampled = self.options.temperature > 0
        return FrontendRequest(
            prompt=self.options.render(job.prompt.text),
            max_tokens=job.max_tokens,
            num_draft_tokens=self.options.draft_length if self.arm == SPECULATIVE else None,
            temperature=self.options.temperature if sampled else None,
            seed=job.seed if sampled else None,
        )

    async def send(self, job: Job, place: Place) -> None:
        """Send a job and record how it went; a server that is known to be gone is not asked again.

        When cancelled, the request is cancelled on the server and recorded as cancelled.
        """
        if self.down is not None:
            self.skip(job, place)
            return
        request, answer = self.request(job), _Answer()
        start = time.perf_counter_ns()
        failure: RequestFailed | None = None
        try:
            async with aclosing(self.connection.stream(request, timeout=self.options.timeout)) as chunks:
                async for chunk in chunks:
                    answer.add(chunk)
        except RequestFailed as error:
            failure = error
        except asyncio.CancelledError:
            self._on_record(self._record(job, place, start, answer, cancelled=True))
            raise
        self._notice(failure)
        self._on_record(self._record(job, place, start, answer, failure=failure))

    def skip(self, job: Job, place: Place) -> None:
        """Record a measured job as failed without sending it; others are dropped."""
        if job.excluded is None:
            failure = RequestFailed(f"not sent: {self.down or 'the load test was stopped'}", code="not_sent")
            self._on_record(self._record(job, place, time.perf_counter_ns(), _Answer(), failure=failure))

    def _notice(self, failure: RequestFailed | None) -> None:
        if failure is None:
            self._failures_in_a_row = 0
            return
        self._failures_in_a_row += failure.code in CONNECTION_CODES
        fatal = self._fatal()
        if fatal is not None:
            self.down = f"{self.arm} arm: {fatal}"
        elif self._failures_in_a_row >= _GIVE_UP:
            self.down = f"{self.arm} arm: {failure.message}"

    def _record(  # noqa: PLR0913 - the facts of one request
        self,
        job: Job,
        place: Place,
        start_ns: int,
        answer: _Answer,
        *,
        failure: RequestFailed | None = None,
        cancelled: bool = False,
    ) -> Record:
        return Record(
            arm=self.arm,
            prompt_id=job.prompt.id,
            category=job.prompt.category,
            concurrency=place.concurrency,
            scheduled_ns=start_ns,
            start_ns=start_ns,
            end_ns=time.perf_counter_ns(),
            chunks=tuple(answer.chunks),
            error=None if failure is None else failure.message,
            error_code=None if failure is None else failure.code,
            cancelled=cancelled,
            server=answer.counters,
            pair_id=job.pair_id,
            block=place.block,
            order=place.order,
            draft_length=self.options.draft_length if self.arm == SPECULATIVE else None,
            max_tokens=job.max_tokens,
            finish_reason=answer.finish_reason,
            excluded=job.excluded,
            marked=True,
            synthetic=self.options.synthetic,
        )
