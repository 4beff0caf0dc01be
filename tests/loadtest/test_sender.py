"""One arm's client against a target that does as it is told."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING

import pytest

from trtspec.errors import RequestFailed
from trtspec.loadtest.jobs import Job
from trtspec.loadtest.prompts import Prompt
from trtspec.loadtest.records import Record
from trtspec.loadtest.sender import ArmClient, Message, Place, SendOptions
from trtspec.wire import Chunk, FrontendRequest

if TYPE_CHECKING:
    from typing_extensions import Self

PLACE = Place("concurrency 1", 1, 0, 0)


@dataclass
class Scripted:
    """Yields `chunks`, then raises `failure`; remembers what it was asked and whether it was closed early."""

    chunks: Sequence[Chunk] = ()
    failure: RequestFailed | None = None
    protocol: str = "http"
    asked: list[FrontendRequest] = field(default_factory=list)
    closed_early: int = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def stream(self, request: FrontendRequest, *, timeout: float) -> AsyncGenerator[Chunk, None]:
        del timeout
        self.asked.append(request)
        try:
            for chunk in self.chunks:
                await asyncio.sleep(0)
                yield chunk
        except GeneratorExit:
            self.closed_early += 1
            raise
        if self.failure is not None:
            raise self.failure


def chunk(text: str, tokens: int | None = 1, *, final: bool = False) -> Chunk:
    return Chunk(time.perf_counter_ns(), text, tokens, final=final)


def job(text: str = "Hello", **fields: object) -> Job:
    prompt = Prompt("p", "code", text, 20, **{k: fields.pop(k) for k in ("messages",) if k in fields})  # type: ignore[arg-type]
    return Job(prompt, "p", 7, 20, **fields)  # type: ignore[arg-type]


def sent(target: Scripted, *jobs: Job, options: SendOptions | None = None) -> list[Record]:
    records: list[Record] = []
    client = ArmClient("speculative", target, options or SendOptions(), records.append)
    asyncio.run(client.send_chain(jobs, PLACE))
    return records


WHOLE = (chunk("a "), chunk("b ", 2), chunk("", 0, final=True))


def test_a_whole_answer() -> None:
    (record,) = sent(Scripted(WHOLE), job())
    assert (record.ok, record.text, record.load, record.protocol) == (True, "a b ", "concurrency 1", "http")
    assert [one.tokens for one in record.chunks] == [1, 2]
    assert (record.tokens_source, record.cancel_reason) == ("server", None)


def test_a_client_that_leaves_closes_the_stream_and_is_no_failure() -> None:
    target = Scripted((chunk("a"), chunk("b", 2), chunk("c"), chunk("", 0, final=True)))
    (record,) = sent(target, job(disconnect_after=3))
    assert (record.cancelled, record.cancel_reason, record.error, record.text) == (True, "disconnect", None, "ab")
    assert target.closed_early == 1


def test_an_answer_that_ends_before_the_client_leaves_is_whole() -> None:
    (record,) = sent(Scripted(WHOLE), job(disconnect_after=4))
    assert record.ok


def test_a_timeout_is_a_failure_that_was_cancelled() -> None:
    (record,) = sent(Scripted((chunk("a"),), RequestFailed("no complete answer within 1 s", code="timeout")), job())
    assert (record.cancelled, record.cancel_reason) == (True, "timeout")
    assert record.error == "no complete answer within 1 s"
    assert not record.ok


def test_what_the_server_does_not_count_is_marked() -> None:
    (record,) = sent(Scripted((chunk("a ", None), chunk("", None, final=True))), job())
    assert record.tokens_source == "none"


def test_a_session_sends_every_answer_back() -> None:
    target = Scripted(WHOLE, protocol="openai-chat")
    system = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "one"})
    records = sent(target, job(messages=system, session="s", turn=0), job("two", session="s", turn=1))
    asked = [json.loads(request.messages or "") for request in target.asked]
    assert asked[0] == list(system)
    assert asked[1] == [*system, {"role": "assistant", "content": "a b "}, {"role": "user", "content": "two"}]
    assert [(record.session, record.turn, record.ok) for record in records] == [("s", 0, True), ("s", 1, True)]


def test_a_turn_after_one_that_failed_is_not_sent() -> None:
    target = Scripted((), RequestFailed("boom", code="target_failed"))
    records = sent(target, job(session="s", turn=0), job("two", session="s", turn=1))
    assert len(target.asked) == 1
    assert [record.error_code for record in records] == ["target_failed", "not_sent"]


def test_a_text_model_gets_the_conversation_rendered() -> None:
    def render(messages: Sequence[Message]) -> str:
        return "|".join(f"{message['role']}:{message['content']}" for message in messages)

    target = Scripted(WHOLE)
    sent(target, job("one"), job("two"), options=SendOptions(render))
    assert [request.prompt for request in target.asked] == ["user:one", "user:one|assistant:a b |user:two"]


def test_a_unique_beginning_stands_before_everything_once() -> None:
    target = Scripted(WHOLE)
    sent(target, job("one", nonce="0f"), job("two", nonce="0f"))
    assert [request.prompt for request in target.asked] == ["[0f]\none", "[0f]\none\n\na b \n\ntwo"]


@pytest.mark.parametrize(("code", "needed"), [("unavailable", 3), ("timeout", 8)])
def test_a_server_is_given_up_after_failures_in_a_row(code: str, needed: int) -> None:
    client = ArmClient("baseline", Scripted((), RequestFailed("gone", code=code)), SendOptions(), lambda _: None)
    place = Place("concurrency 4", 4, 0, 0)

    async def until_down() -> int:
        for count in range(1, 30):
            await client.send(job(), place)
            if client.down is not None:
                return count
        return 0

    assert asyncio.run(until_down()) == needed
    assert client.down == "baseline arm: gone"


def test_a_slow_server_that_answers_is_not_given_up() -> None:
    slow = Scripted((chunk("a"),), RequestFailed("slow", code="timeout"))
    client = ArmClient("baseline", slow, SendOptions(), lambda _: None)

    async def many() -> None:
        for _ in range(20):
            await client.send(job(), PLACE)

    asyncio.run(many())
    assert client.down is None


def test_what_is_broken_off_is_recorded_as_ours() -> None:
    records: list[Record] = []
    slow = Scripted(tuple(chunk("a") for _ in range(1000)))
    client = ArmClient("baseline", slow, SendOptions(), records.append)

    async def stopped() -> None:
        task = asyncio.create_task(client.send(job(), PLACE))
        for _ in range(20):
            await asyncio.sleep(0)
        assert slow.asked
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(stopped())
    assert [(record.cancelled, record.cancel_reason) for record in records] == [(True, "stop")]
