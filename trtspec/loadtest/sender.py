"""Sending requests to one arm and recording what came back."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from trtspec.errors import RequestFailed, UsageError
from trtspec.loadtest.jobs import Job
from trtspec.loadtest.records import ChunkRecord, Record
from trtspec.loadtest.sound import changed, sound_counters, sound_stamps
from trtspec.spec.names import SPECULATIVE, Arm
from trtspec.wire import CONNECTION_CODES, Chunk, Counters, FrontendRequest

if TYPE_CHECKING:
    from trtspec.wire.messages import ServerStamps
    from trtspec.wire.targets import Target

__all__ = ["ArmClient", "Message", "Place", "SendOptions", "plain_text"]

# after so many failures in a row that speak of the server, it is given up
_GIVE_UP = 3
_TIMEOUT = "timeout"
# an answer of more characters, each chunk counted as so many more, goes on without end
_LONGEST, _LONGEST_TOKEN, _CHUNK_SIZE = 2**20, 2**10, 100
_CHAT = "openai-chat"
# CancelledError, a client that leaves early, an answer that takes too long
_Reason = Literal["stop", "disconnect", "timeout"]

Message = Mapping[str, str]


def plain_text(messages: Sequence[Message]) -> str:
    """The messages' texts one below the other, for a model without a chat template."""
    return "\n\n".join(message["content"] for message in messages)


@dataclass(frozen=True)
class SendOptions:
    """What all requests have in common; `render` turns a conversation into the prompt text."""

    render: Callable[[Sequence[Message]], str] = plain_text
    temperature: float = 0.0
    timeout: float = 120.0
    draft_length: int | None = None
    synthetic: bool = False


@dataclass(frozen=True)
class Place:
    """Where in the plan a request belongs: load level, block, and whether its arm went first (0) or second (1)."""

    load: str
    concurrency: int
    block: int
    order: int
    worker: int | None = None


@dataclass
class _Answer:
    """What has come so far; times of `time.perf_counter_ns()`."""

    scheduled_ns: int
    start_ns: int
    chunks: list[ChunkRecord] = field(default_factory=list)
    tokens: int = 0
    size: int = 0
    counters: Counters | None = None
    perf: ServerStamps | None = None
    finish_reason: str = ""
    failure: RequestFailed | None = None
    cancelled: _Reason | None = None

    def add(self, chunk: Chunk) -> None:
        self.counters = chunk.counters or self.counters
        self.perf = chunk.perf or self.perf
        self.finish_reason = chunk.finish_reason or self.finish_reason
        # the closing message of a stream carries nothing
        if chunk.text or chunk.tokens:
            self.chunks.append(ChunkRecord(chunk.t_ns, chunk.text, chunk.tokens))
            self.tokens += 1 if chunk.tokens is None else chunk.tokens
            self.size += _CHUNK_SIZE + len(chunk.text)

    def keep_what_can_be(self) -> None:
        """Forget counts and times that are none (a server may say anything): with such the request has failed."""
        counters, perf = sound_counters(self.counters), sound_stamps(self.perf)
        if (counters, perf) != (self.counters, self.perf):
            wrong = ", ".join((*changed(self.counters, counters), *changed(self.perf, perf)))
            failure = RequestFailed(f"the server's own numbers make no sense: {wrong}", code="bad_response")
            self.failure = self.failure or failure
        self.counters, self.perf = counters, perf

    @property
    def text(self) -> str | None:
        """The whole text; None when it did not come whole."""
        whole = self.failure is None and self.cancelled is None
        return "".join(chunk.text for chunk in self.chunks) if whole else None

    @property
    def counted(self) -> bool:
        """True when the server told how many tokens it sent."""
        if self.counters is not None and self.counters.num_output_tokens is not None:
            return True
        return all(chunk.tokens is not None for chunk in self.chunks)


class ArmClient:
    """One arm's target: sends jobs, hands every record to `on_record`, and knows when its server is gone.

    `fatal` tells why the server will never answer again, None when it may.
    """

    def __init__(
        self,
        arm: Arm,
        target: Target,
        options: SendOptions,
        on_record: Callable[[Record], None],
        fatal: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.arm = arm
        self.target = target
        self.options = options
        self.down: str | None = None
        self._on_record = on_record
        self._fatal = fatal
        self._failures_in_a_row = 0

    def request(self, job: Job, history: Sequence[Message] = ()) -> FrontendRequest:
        """The request of a job after the conversation `history`: greedy without sampling fields at temperature 0."""
        sampled = self.options.temperature > 0
        messages = [*history, *_messages(job, first=not history)]
        chat = self.target.protocol == _CHAT
        return FrontendRequest(
            prompt="" if chat else self.options.render(messages),
            messages=json.dumps(messages, ensure_ascii=False) if chat else None,
            max_tokens=job.max_tokens,
            num_draft_tokens=self.options.draft_length if self.arm == SPECULATIVE else None,
            temperature=self.options.temperature if sampled or chat else None,
            seed=job.seed if sampled else None,
        )

    async def send_chain(self, jobs: Sequence[Job], place: Place, due_ns: int | None = None) -> None:
        """Send `jobs` one after the other, each with the conversation before it; the first was due at `due_ns`.

        After one that did not succeed, the others count as failed: they would ask something else.
        """
        history: list[Message] = []
        for index, job in enumerate(jobs):
            answer = await self.send(job, place, history, due_ns)
            due_ns = None
            if answer is None:
                for later in jobs[index + 1 :]:
                    self.skip(later, place, "the turn before it did not succeed")
                return
            history += [*_messages(job, first=not history), {"role": "assistant", "content": answer}]

    async def send(
        self, job: Job, place: Place, history: Sequence[Message] = (), due_ns: int | None = None
    ) -> str | None:
        """Send a job, record how it went and return the whole answer, None when there is none.

        A server that is known to be gone is not asked again. When cancelled, the request is cancelled on the server
        and recorded as cancelled.
        """
        if self.down is not None:
            self.skip(job, place, self.down)
            return None
        request, now = self.request(job, history), time.perf_counter_ns()
        answer = _Answer(now if due_ns is None else due_ns, now)
        try:
            await self._receive(request, job, answer)
        except RequestFailed as error:
            answer.failure = error
            answer.cancelled = "timeout" if error.code == _TIMEOUT else None
        except UsageError as error:  # a model that is there no longer
            answer.failure = RequestFailed(error.message, code="unavailable")
        except asyncio.CancelledError:
            answer.cancelled = "stop"
            raise
        finally:
            answer.keep_what_can_be()
            self._notice(answer, place)
            self._on_record(self._record(job, place, answer))
        return answer.text

    async def _receive(self, request: FrontendRequest, job: Job, answer: _Answer) -> None:
        async with aclosing(self.target.stream(request, timeout=self.options.timeout)) as chunks:
            most = _LONGEST + _LONGEST_TOKEN * job.max_tokens
            async for chunk in chunks:
                answer.add(chunk)
                if answer.size > most:
                    message = f"the answer does not end: it was asked for {job.max_tokens} tokens at most"
                    raise RequestFailed(message, code="endless")
                if job.disconnect_after is not None and answer.tokens >= job.disconnect_after and not chunk.final:
                    answer.cancelled = "disconnect"
                    return

    def skip(self, job: Job, place: Place, reason: str) -> None:
        """Record a measured job as failed without sending it; others are dropped."""
        if job.excluded is None:
            now = time.perf_counter_ns()
            failure = RequestFailed(f"not sent: {reason}", code="not_sent")
            self._on_record(self._record(job, place, _Answer(now, now, failure=failure)))

    def _notice(self, answer: _Answer, place: Place) -> None:
        failure = answer.failure
        if failure is None:
            self._failures_in_a_row = 0 if answer.cancelled is None else self._failures_in_a_row
            return
        # an answer that had begun when its time was over says that the server is there
        self._failures_in_a_row += failure.code in CONNECTION_CODES and not answer.chunks
        limit = max(_GIVE_UP, 2 * place.concurrency) if failure.code == _TIMEOUT else _GIVE_UP
        fatal = self._fatal()
        if fatal is not None:
            self.down = f"{self.arm} arm: {fatal}"
        elif self._failures_in_a_row >= limit:
            self.down = f"{self.arm} arm: {failure.message}"

    def _record(self, job: Job, place: Place, answer: _Answer) -> Record:
        failure = answer.failure
        return Record(
            arm=self.arm,
            prompt_id=job.prompt.id,
            category=job.prompt.category,
            concurrency=place.concurrency,
            load=place.load,
            scheduled_ns=answer.scheduled_ns,
            start_ns=answer.start_ns,
            end_ns=time.perf_counter_ns(),
            chunks=tuple(answer.chunks),
            error=None if failure is None else failure.message,
            error_code=None if failure is None else failure.code,
            cancelled=answer.cancelled is not None,
            cancel_reason=answer.cancelled,
            server=answer.counters,
            perf=answer.perf,
            tokens_source="server" if answer.counted else "none",
            pair_id=job.pair_id,
            block=place.block,
            order=place.order,
            session=job.session,
            turn=job.turn,
            worker=place.worker,
            protocol=self.target.protocol,
            draft_length=self.options.draft_length if self.arm == SPECULATIVE else None,
            max_tokens=job.max_tokens,
            finish_reason=answer.finish_reason,
            excluded=job.excluded,
            marked=True,
            synthetic=self.options.synthetic,
        )


def _messages(job: Job, *, first: bool) -> list[Message]:
    """What a job adds to its conversation; a unique beginning where its prefix must be in no cache."""
    messages = list(job.prompt.messages or ({"role": "user", "content": job.prompt.text},))
    if job.nonce is not None and first:
        messages[0] = {**messages[0], "content": f"[{job.nonce}]\n{messages[0]['content']}"}
    return messages
