"""`generate_stream` from a server that sends exactly what is scripted: what is a whole answer, and when it arrived."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import aclosing
from typing import Any

import pytest

from tests.wire.collecting import collect
from tests.wire.sse_server import Asked, Break, Head, Send, SseServer, Step, event, events, json_answer
from trtspec.errors import RequestFailed, ServerUnreachable, UsageError
from trtspec.wire import Chunk, FrontendRequest, detect_target, open_target

REQUEST = FrontendRequest("Hello", 8)
FRONTEND = {
    "inputs": [{"name": "text_input", "datatype": "BYTES"}],
    "outputs": [{"name": "num_spec_steps", "datatype": "INT32"}],
}


def answer(text: str, tokens: int, reason: str = "", **more: Any) -> dict[str, Any]:
    return {"model_name": "m", "text_output": text, "num_output_tokens": tokens, "finish_reason": reason, **more}


def server(*steps: Step) -> SseServer:
    """Answers every generate_stream with `steps`, and every question as the frontend would."""

    def script(asked: Asked) -> Iterable[Step]:
        return steps if asked.path.endswith("/generate_stream") else json_answer(FRONTEND)

    return SseServer(script)


def answered(*steps: Step, request: FrontendRequest = REQUEST) -> list[Chunk]:
    with server(*steps) as there:
        return collect(there.url, request, kind="triton-http")


def failure(*steps: Step, timeout: float = 30) -> RequestFailed:
    with server(*steps) as there, pytest.raises(RequestFailed) as caught:
        collect(there.url, REQUEST, kind="triton-http", timeout=timeout)
    return caught.value


def test_running_counts_become_counts_per_chunk() -> None:
    counters: dict[str, Any] = {"num_spec_steps": 1, "total_draft_tokens": 4, "total_accepted_draft_tokens": 2}
    chunks = answered(
        *events(
            answer("ab", 3, num_input_tokens=9, acceptance_histogram=[0, 0, 1], **counters),
            answer("", 3),
            answer("c", 4, "length", acceptance_histogram=1),
        )
    )
    assert [chunk.text for chunk in chunks] == ["ab", "", "c", ""]
    assert [chunk.tokens for chunk in chunks] == [3, 0, 1, None]
    assert [chunk.final for chunk in chunks] == [False, False, False, True]
    first = chunks[0].counters
    assert first is not None
    assert (first.num_input_tokens, first.num_spec_steps, first.num_draft_tokens) == (9, 1, 4)
    assert first.acceptance_histogram == (0, 0, 1)
    assert chunks[2].counters is not None
    assert chunks[2].counters.acceptance_histogram == (1,)
    assert chunks[2].finish_reason == "length"


def test_only_what_was_given_is_sent() -> None:
    with server(*events(answer("x", 1, "stop"))) as there:
        collect(there.url, REQUEST, kind="triton-http")
        full = FrontendRequest("é", 3, num_draft_tokens=0, temperature=0.5, seed=2**63, stop_words=("a",), top_k=2)
        collect(there.url, full, kind="triton-http", model="other")
    flags = {"return_num_input_tokens": True, "return_num_output_tokens": True, "return_perf_metrics": True}
    assert there.asked[0].path == "/v2/models/tensorrt_llm_bls/generate_stream"
    assert there.asked[0].document == {"text_input": "Hello", "max_tokens": 8, "stream": True, **flags}
    assert there.asked[1].path == "/v2/models/other/generate_stream"
    sent = {"temperature": 0.5, "seed": 2**63, "stop_words": ["a"], "top_k": 2, "num_draft_tokens": 0}
    assert there.asked[1].document == {"text_input": "é", "max_tokens": 3, "stream": True, **sent, **flags}


def test_what_json_cannot_carry_is_one_failed_request() -> None:
    for request in (FrontendRequest("\ud800", 3), FrontendRequest("a", 3, temperature=float("nan"))):
        with pytest.raises(RequestFailed) as caught:
            answered(request=request)
        assert caught.value.code == "invalid_request"


def test_two_events_in_one_read_and_one_event_over_two_reads() -> None:
    whole = event(answer("né", 1)) + event(answer("b", 2))
    last = event(answer("é🎉", 3, "stop"))
    cut = last.index("é".encode()) + 1  # in the middle of a character
    chunks = answered(Send(whole), Send(last[:cut], 60), Send(last[cut:], 120))
    assert [chunk.text for chunk in chunks] == ["né", "b", "é🎉", ""]
    assert chunks[0].t_ns == chunks[1].t_ns
    # arrived is an event when its last byte has
    assert chunks[2].t_ns - chunks[0].t_ns >= 100_000_000


def test_arrival_is_that_of_the_socket_not_of_the_reader() -> None:
    async def slow_reader(url: str) -> list[Chunk]:
        chunks = []
        async with open_target(url, kind="triton-http") as target:
            async for chunk in target.stream(REQUEST, timeout=30):
                chunks.append(chunk)
                await asyncio.sleep(2 if len(chunks) == 1 else 0)
        return chunks

    pieces = events(*(answer(str(index), index + 1) for index in range(4)), answer("", 4, "stop"), gap_ms=60)
    with server(*pieces) as there:
        chunks = asyncio.run(slow_reader(there.url))
        written = there.sent[-1]
    lags = [(chunk.t_ns - sent_ns) / 1e6 for chunk, sent_ns in zip(chunks[:4], written[:4], strict=True)]
    # about 1900 ms, were it the reader's time
    assert all(0 <= lag < 1000 for lag in lags), lags


def test_the_busy_loop_does_not_hide_a_burst() -> None:
    """Bytes that arrive while the loop computes are stamped when the loop sees them; their order and number hold."""
    burst = events(*(answer("x", index + 1) for index in range(200)), answer("", 200, "stop"))
    chunks = answered(*burst)
    assert sum(chunk.tokens or 0 for chunk in chunks) == 200
    times = [chunk.t_ns for chunk in chunks]
    assert times == sorted(times)


@pytest.mark.parametrize("head", [Head(), Head(content_type="text/event-stream; charset=utf-8")])
def test_an_error_in_a_stream_that_began_well(head: Head) -> None:
    error = failure(head, *events(answer("fast", 4), {"error": "Stub process 'x' is not healthy."}))
    assert (error.code, error.message) == ("server_error", "Stub process 'x' is not healthy.")


def test_refused_with_a_status() -> None:
    document = {"error": "prompt_too_long: 900 tokens do not\nfit"}
    error = failure(*json_answer(document, 400))
    assert (error.code, error.message) == ("prompt_too_long", "900 tokens do not fit")
    error = failure(*json_answer({"error": "queue is full"}, 503))
    assert (error.code, error.message) == ("http_503", "HTTP 503: queue is full")
    error = failure(Head(400), *events(document))  # as Triton does
    assert (error.code, error.message) == ("prompt_too_long", "900 tokens do not fit")
    error = failure(Head(502, "text/html", 6), Send(b"<html>"))
    assert (error.code, error.message) == ("http_502", "HTTP 502: <html>")


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([], "ended_early"),
        (events(answer("half", 2)), "ended_early"),
        ([*events(answer("half", 2)), Send(b'data: {"text_out')], "ended_early"),
        ([*events(answer("half", 2)), Break()], "ended_early"),
        ([Break()], "ended_early"),
        (events(answer("", 0, "stop")), "empty"),
        (events([1, 2]), "bad_response"),
    ],
)
def test_what_is_no_whole_answer(steps: list[Step], code: str) -> None:
    assert failure(*steps).code == code


def test_nobody_listens() -> None:
    with pytest.raises(RequestFailed) as caught:
        collect("http://127.0.0.1:9", REQUEST, kind="triton-http")
    assert caught.value.code == "unavailable"
    with pytest.raises(ServerUnreachable, match="within 0"):
        asyncio.run(detect_target("http://127.0.0.1:9", timeout=0.2))


def test_silence_ends_at_the_deadline_and_the_server_sees_it() -> None:
    with server(*events(answer("half", 2)), Send(event(answer("late", 3)), 20_000)) as there:
        start = time.perf_counter()
        with pytest.raises(RequestFailed) as caught:
            collect(there.url, REQUEST, kind="triton-http", timeout=0.4)
        assert time.perf_counter() - start < 10
        assert caught.value.code == "timeout"
        wait_until(lambda: bool(there.left))


def test_leaving_early_cancels_on_the_server_and_a_whole_answer_keeps_the_connection() -> None:
    async def leave(url: str) -> None:
        async with open_target(url, kind="triton-http") as target:
            async with aclosing(target.stream(REQUEST, timeout=30)) as chunks:
                async for _ in chunks:
                    break
            await asyncio.to_thread(wait_until, lambda: bool(there.left))

    async def stay(url: str) -> None:
        async with open_target(url, kind="triton-http") as target:
            for _ in range(5):
                assert [chunk async for chunk in target.stream(REQUEST, timeout=30)]

    with server(*events(answer("a", 1)), Send(event(answer("b", 2, "stop")), 20_000)) as there:
        asyncio.run(leave(there.url))
    with server(*events(answer("a", 1, "stop"))) as there:
        asyncio.run(stay(there.url))
        assert there.connections == 1


def wait_until(done: Any) -> None:
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_kind_is_found_out() -> None:
    stock = {
        "inputs": [{"name": name, "datatype": "BYTES"} for name in ("text_input", "max_tokens", "stream")],
        "outputs": [{"name": "text_output", "datatype": "BYTES"}],
    }

    def script(asked: Asked) -> Iterable[Step]:
        known = {"/v2/models/ensemble": stock, "/v2/models/ensemble/config": {"platform": "ensemble"}}
        document = known.get(asked.path)
        return json_answer(document or {"error": "Request for unknown model is not found"}, 200 if document else 404)

    with SseServer(script) as there:

        async def facts() -> tuple[str, str]:
            async with open_target(there.url) as target:
                found = await target.facts()
                return found.kind, found.model

        assert asyncio.run(facts()) == ("nvidia-ensemble", "ensemble")
        with pytest.raises(UsageError, match="no model that can be load-tested"):
            collect(there.url, REQUEST, model="nobody")


def test_a_server_that_still_loads_its_models_is_waited_for() -> None:
    def script(asked: Asked) -> Iterable[Step]:
        loaded = len(there.asked) > 20
        if asked.path.startswith("/v2/models/") and not loaded:
            return json_answer({"error": "Request for unknown model: has no available versions"}, 400)
        if asked.path == "/v2/health/ready" and not loaded:
            return [Head(400, "text/plain", 0)]
        return json_answer(FRONTEND)

    with SseServer(script) as there:
        assert asyncio.run(detect_target(there.url, timeout=30)).kind == "triton-http"
    with SseServer(lambda _: [Head(400, "text/plain", 0)]) as there, pytest.raises(ServerUnreachable):
        asyncio.run(detect_target(there.url, timeout=0.2))


def test_a_server_without_a_known_model_is_not_waited_for() -> None:
    def script(asked: Asked) -> Iterable[Step]:
        return json_answer({}) if "health" in asked.path else json_answer({"error": "Request for unknown model"}, 400)

    with SseServer(script) as there, pytest.raises(UsageError, match="no model that can be load-tested"):
        asyncio.run(detect_target(there.url, timeout=300))


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("localhost:8001", "triton-http"),
        ("grpcs://localhost:8001", "openai-chat"),
        ("http://localhost:8000", "triton-grpc"),
        ("http://localhost:8000/v1", "nvidia-bls"),
        ("http://localhost:8000/v1/completions", "openai-chat"),
        ("ftp://localhost:8000", "auto"),
        ("http://", "auto"),
        ("localhost:8001", "nonsense"),
    ],
)
def test_addresses_that_make_no_sense(url: str, kind: str) -> None:
    with pytest.raises(UsageError):
        open_target(url, kind=kind)


@pytest.mark.parametrize(
    ("url", "kind", "protocol"),
    [
        ("localhost:8001", "auto", "grpc"),
        ("localhost:8001", "llmapi", "grpc"),
        ("http://localhost:8000", "auto", "http"),
        ("http://localhost:8000/", "nvidia-bls", "http"),
        ("http://localhost:8000", "openai-completions", "openai-completions"),
        ("https://localhost/v1", "auto", "openai-chat"),
        ("http://localhost:8000/v1/completions", "auto", "openai-completions"),
        ("http://localhost:8000/v1/chat/completions", "auto", "openai-chat"),
    ],
)
def test_the_address_says_how_it_is_spoken_to(url: str, kind: str, protocol: str) -> None:
    assert open_target(url, kind=kind).protocol == protocol
