"""Servers that answer in a shape nobody expects: a failed request with a reason, never an exception of another kind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from tests.wire.collecting import collect
from tests.wire.fake_triton import FakeTriton, echo_script
from tests.wire.sse_server import Asked, Head, Send, SseServer, Step, event, events, json_answer
from trtspec.errors import RequestFailed, ServerUnreachable
from trtspec.wire import FrontendRequest, open_target
from trtspec.wire.facts import TargetFacts
from trtspec.wire.http import HttpSession, parse_json
from trtspec.wire.http_framing import BadAnswer, body_of, read_head
from trtspec.wire.readable import count
from trtspec.wire.sse import EventSplitter

REQUEST = FrontendRequest("Hello", 8)
ODD: tuple[Any, ...] = (-1, 2.5, "x", [], [1], {"a": 1}, True, 2**70)
PIECE = {"choices": [{"index": 0, "delta": {"content": "hi "}, "finish_reason": None}]}
LAST = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "length"}]}


def odd_pieces() -> Iterator[Any]:
    for odd in ODD:
        yield odd
        yield from ({"choices": odd}, {"choices": [odd]})
        yield from ({"choices": [{"delta": odd}]}, {"choices": [{"message": odd}]})
        yield {"choices": [{"delta": {"content": odd}, "finish_reason": odd}]}
        yield {**PIECE, "usage": odd}
        for key in ("prompt_tokens", "completion_tokens", "completion_tokens_details"):
            yield {**PIECE, "usage": {"completion_tokens": 1, key: odd}}
        details = {"accepted_prediction_tokens": 1, "rejected_prediction_tokens": odd}
        yield {**PIECE, "usage": {"completion_tokens": 1, "completion_tokens_details": details}}
        yield from ({"error": odd}, {"error": {"message": odd, "code": odd}})


def odd_responses() -> Iterator[Any]:
    good = {"text_output": "hi ", "num_output_tokens": 1, "finish_reason": ""}
    names = ("text_output", "num_output_tokens", "total_draft_tokens", "acceptance_histogram", "finish_reason")
    for odd in ODD:
        yield odd
        for name in (*names, "token_ids", "token_sources", "output_log_probs", "arrival_time_ns"):
            yield {**good, name: odd}
            yield {**good, name: [odd]}


def outcomes(url: str, answers: list[Any], current: list[Any], kind: str) -> list[str]:
    """What became of each answer: "answered", or the code of its failure; anything else is raised."""

    async def one(target: Any) -> str:
        try:
            async for chunk in target.stream(REQUEST, timeout=20):
                assert isinstance(chunk.text, str)
                assert chunk.tokens is None or (type(chunk.tokens) is int and chunk.tokens >= 0)
        except RequestFailed as error:
            return error.code
        return "answered"

    async def run() -> list[str]:
        async with open_target(url, kind=kind) as target:
            found = []
            for answer in answers:
                current[:] = [answer]
                found.append(await one(target))
            return found

    return asyncio.run(run())


def test_a_chat_of_any_shape_is_an_answer_or_a_failed_request() -> None:
    current: list[Any] = []

    def script(asked: Asked) -> Iterable[Step]:
        if asked.method != "POST":
            return json_answer({"data": [{"id": "m"}]})
        return events(*current, LAST, b"[DONE]")

    with SseServer(script) as there:
        found = outcomes(f"{there.url}/v1", list(odd_pieces()), current, "auto")
    assert found.count("bad_response") > 50
    assert "answered" in found


def test_responses_of_any_shape_are_an_answer_or_a_failed_request() -> None:
    current: list[Any] = []

    def script(asked: Asked) -> Iterable[Step]:
        return events(*current, {"text_output": "x", "finish_reason": "length"}) if asked.method == "POST" else []

    with SseServer(script) as there:
        found = outcomes(there.url, list(odd_responses()), current, "triton-http")
    assert found.count("bad_response") > 10
    assert "answered" in found


def test_a_running_count_that_falls_is_a_failed_request() -> None:
    pieces = [{**PIECE, "usage": {"completion_tokens": number}} for number in (5, 3)]

    def script(asked: Asked) -> Iterable[Step]:
        return events(*pieces, LAST, b"[DONE]") if asked.method == "POST" else json_answer({"data": [{"id": "m"}]})

    with SseServer(script) as there, pytest.raises(RequestFailed, match="count of tokens makes no sense: -2") as caught:
        collect(f"{there.url}/v1", REQUEST)
    assert caught.value.code == "bad_response"


def test_counts() -> None:
    assert [count(value) for value in (None, 0, 7, 7.0)] == [None, 0, 7, 7]
    wrong: tuple[Any, ...] = (-1, 2.5, "7", True, [], float("nan"), float("inf"), 2**63)
    for value in wrong:
        with pytest.raises(ValueError, match="is no count"):
            count(value)


@pytest.mark.parametrize("page", [[], "x", 3, {"data": 3}, {"data": [1, {"id": 3}]}])
def test_a_list_of_models_of_another_shape_is_no_server(page: Any) -> None:
    async def run(url: str) -> None:
        async with open_target(f"{url}/v1", model="m") as target:
            await target.wait_ready(timeout=0.2)
            await target.facts()

    with SseServer(lambda _asked: json_answer(page)) as there:
        if isinstance(page, dict) and isinstance(page["data"], list):
            asyncio.run(run(there.url))
        else:
            with pytest.raises(ServerUnreachable):
                asyncio.run(run(there.url))


@pytest.mark.parametrize("page", [[], "x", 3, [1], {"inputs": 1}, {"inputs": [1]}, {"inputs": [{"name": 1}]}])
def test_what_a_triton_tells_of_itself_may_have_any_shape(page: Any) -> None:
    async def run(url: str) -> TargetFacts:
        async with open_target(url, kind="triton-http") as target:
            await target.wait_ready(timeout=5)
            try:
                assert await target.counts() == {}
            except RequestFailed as error:
                assert error.code == "bad_response"  # noqa: PT017 - one of both
            return await target.facts()

    with SseServer(lambda _asked: json_answer(page)) as there:
        assert asyncio.run(run(there.url)).model == "tensorrt_llm_bls"


def test_facts_can_always_be_written() -> None:
    deep: Any = 1
    for _ in range(500):
        deep = [deep]
    facts = TargetFacts("u", "k", "p", "m", server={"a": float("nan"), "b": deep}, configuration={"c": (1, {2: None})})
    data = json.loads(json.dumps(facts.as_json(), allow_nan=False))
    assert data["server"]["a"] == "nan"
    assert data["configuration"] == {"c": [1, {"2": None}]}


def test_json_that_is_nested_too_deep_is_no_json() -> None:
    with pytest.raises(ValueError, match="deep"):
        parse_json(b"[" * 100_000 + b"]" * 100_000)


def test_heads_and_chunks_that_never_end() -> None:
    with pytest.raises(BadAnswer, match="does not end"):
        read_head(b"HTTP/1.1 100 Continue\r\n\r\n" * 5000)
    for size in (b"-5", b"+5", b"0x5", b"1_0", b"", b"f" * 17):
        read = read_head(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + size + b"\r\nab")
        assert read is not None
        with pytest.raises(BadAnswer, match="size"):
            body_of(read[0]).feed(read[1])
    for length in ("²", "-1", "9" * 5000, "x", ""):
        read = read_head(f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n".encode("latin-1"))
        assert read is not None
        with pytest.raises(BadAnswer, match="length"):
            body_of(read[0])
    with pytest.raises(BadAnswer, match="begins with"):
        read_head("HTTP/1.1 ²00 OK\r\n\r\n".encode("latin-1"))


def test_an_event_without_end_is_given_up() -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: " + b"a" * 2**22) == []
    with pytest.raises(RequestFailed, match="event") as caught:
        splitter.feed(b"a" * 2**23)
    assert caught.value.code == "bad_response"


def test_the_time_that_is_told_is_the_time_that_was_given() -> None:
    with SseServer(lambda _asked: [Send(event({"text_output": "a"})), Send(b"", at_ms=5000)]) as there:
        for _ in range(2):
            with pytest.raises(RequestFailed, match=r"within 0\.2 s") as caught:
                collect(there.url, REQUEST, kind="triton-http", timeout=0.2)
            assert caught.value.code == "timeout"


def test_an_answer_that_nobody_asked_for_is_never_the_next_ones() -> None:
    twice: list[Step] = [
        Head(200, "application/json", 2),
        Send(b"{}"),
        Send(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n7", 30),
    ]

    async def run(url: str) -> list[Any]:
        async with HttpSession(url) as session:
            found = []
            for _ in range(3):
                found.append(await session.document("/"))
                await asyncio.sleep(0.1)
            return found

    with SseServer(lambda _asked: twice) as there:
        assert asyncio.run(run(there.url)) == [{}, {}, {}]
        assert there.connections == 3


def test_no_proxy_stands_between_the_load_and_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with FakeTriton(echo_script()) as there:
        assert collect(there.url, REQUEST, kind="triton-grpc", timeout=20)
    with SseServer(lambda _asked: events({"text_output": "x", "finish_reason": "stop"})) as there_too:
        assert collect(there_too.url, REQUEST, kind="triton-http", timeout=20)
