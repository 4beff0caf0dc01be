"""The client against a real gRPC server whose behaviour is scripted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import aclosing
from typing import Any

import pytest

from tests.wire.fake_triton import EndEarly, ErrorMessage, FakeTriton, Kill, Reply, answer
from trtspec.errors import RequestFailed, ServerUnreachable
from trtspec.wire import (
    Chunk,
    Connection,
    Counters,
    FrontendRequest,
    ModelCounts,
    model_counts,
    model_tensors,
    next_token_logits,
    stream,
    wait_ready,
)

REQUEST = FrontendRequest("Hello", 8)


def collect(url: str, request: FrontendRequest = REQUEST, timeout: float = 10) -> list[Chunk]:
    async def run() -> list[Chunk]:
        return [chunk async for chunk in stream(url, request, timeout=timeout)]

    return asyncio.run(run())


def failure(steps: Iterable[Any], timeout: float = 10) -> RequestFailed:
    with FakeTriton(lambda _: steps) as server, pytest.raises(RequestFailed) as caught:
        collect(server.url, timeout=timeout)
    return caught.value


def test_running_counts_become_counts_per_chunk() -> None:
    replies = [
        Reply(1, "ab", 3, steps=1, drafted=4, accepted=2, histogram=(0, 0, 1), num_input_tokens=9),
        Reply(2, "", 3, steps=1, drafted=4, accepted=2, histogram=(0, 0, 1)),
        Reply(3, "c", 4, steps=2, drafted=8, accepted=2, histogram=(1, 0, 1), finish_reason="length"),
        Reply(3, None, final=True),
    ]
    with FakeTriton(lambda _: replies) as server:
        chunks = collect(server.url)
    assert [chunk.text for chunk in chunks] == ["ab", "", "c", ""]
    assert [chunk.tokens for chunk in chunks] == [3, 0, 1, None]
    assert [chunk.final for chunk in chunks] == [False, False, False, True]
    last = chunks[2].counters
    assert last is not None
    assert (last.num_spec_steps, last.num_draft_tokens, last.num_accepted_tokens) == (2, 8, 2)
    assert last.acceptance_histogram == (1, 0, 1)
    assert chunks[2].finish_reason == "length"


def test_a_server_that_does_not_count_gives_none_not_zero() -> None:
    with FakeTriton(lambda _: [Reply(1, "text"), Reply(1, "", final=True)]) as server:
        chunks = collect(server.url)
    assert [chunk.tokens for chunk in chunks] == [None, None]
    assert [chunk.counters for chunk in chunks] == [None, None]


def test_only_what_was_given_is_sent() -> None:
    with FakeTriton(lambda _: answer(["x"])) as server:
        collect(server.url)
        collect(
            server.url, FrontendRequest("p", 3, num_draft_tokens=0, temperature=0.5, seed=2**63, stop_words=("a", "b"))
        )
    plain, full = (request.inputs for request in server.received)
    assert set(plain) == {
        *("text_input", "max_tokens", "stream"),
        *("return_num_input_tokens", "return_num_output_tokens", "return_perf_metrics"),
    }
    assert full["num_draft_tokens"] == [0]
    assert full["temperature"] == [0.5]
    assert full["seed"] == [2**63]
    assert full["stop_words"] == ["a", "b"]


def test_a_chat_is_sent_instead_of_a_text() -> None:
    with FakeTriton(lambda _: answer(["x"])) as server:
        request = FrontendRequest(
            "", 3, messages="[]", min_tokens=2, repetition_penalty=1.5, presence_penalty=-1, frequency_penalty=0.5,
            log_probs=True,
        )  # fmt: skip
        collect(server.url, request)
    (received,) = server.received
    assert "text_input" not in received.inputs
    assert received.inputs["messages"] == ["[]"]
    assert received.inputs["min_tokens"] == [2]
    names = ("repetition_penalty", "presence_penalty", "frequency_penalty")
    assert [received.inputs[name] for name in names] == [[1.5], [-1.0], [0.5]]
    assert received.inputs["return_log_probs"] == [True]


def test_arrival_times_follow_the_server() -> None:
    with FakeTriton(lambda _: answer(["a", "b", "c"], first_ms=60, gap_ms=40)) as server:
        collect(server.url)
        start = time.perf_counter_ns()
        chunks = collect(server.url)
    arrivals = [(chunk.t_ns - start) / 1e6 for chunk in chunks[:3]]
    # a busy machine may delay, nothing may come early or be stamped at the end
    for arrival, sent in zip(arrivals, (60, 100, 140), strict=True):
        assert sent <= arrival, arrivals
    assert arrivals == sorted(arrivals)
    assert arrivals[0] < 140, arrivals


def test_error_in_the_stream_carries_its_code() -> None:
    error = failure([Reply(1, "par", 1), ErrorMessage("prompt_too_long: 900 tokens do not fit\ninto 512")])
    assert (error.code, error.message) == ("prompt_too_long", "900 tokens do not fit into 512")


def test_error_without_code() -> None:
    error = failure([ErrorMessage("Stub process 'x' is not healthy.")])
    assert (error.code, error.message) == ("server_error", "Stub process 'x' is not healthy.")


def test_stream_without_final_response_is_a_failure() -> None:
    error = failure([Reply(1, "half", 2), EndEarly()])
    assert (error.code, error.message) == ("ended_early", "stream ended early")


def test_a_broken_connection_is_a_failure() -> None:
    assert failure([Reply(1, "half", 2), Kill()]).code == "unavailable"


def test_silence_ends_at_the_deadline_and_cancels_on_the_server() -> None:
    """A client that left ends the work for it."""
    start = time.perf_counter()
    with FakeTriton(lambda _: [Reply(1, "half", 2), Reply(5_000, "late", 3)]) as server:
        with pytest.raises(RequestFailed) as caught:
            collect(server.url, timeout=0.3)
        assert caught.value.code == "timeout"
        assert time.perf_counter() - start < 2
        while not server.cancelled and time.perf_counter() - start < 5:
            time.sleep(0.02)
        assert server.cancelled == ["tensorrt_llm_bls"]


def test_nobody_listens() -> None:
    with pytest.raises(RequestFailed) as caught:
        collect("127.0.0.1:9", timeout=5)
    assert caught.value.code == "unavailable"


def test_closing_the_stream_cancels_the_call_on_the_server() -> None:
    """A client that left ends the work for it."""

    async def leave_early(url: str) -> None:
        async with Connection(url) as connection:
            async with aclosing(connection.stream(REQUEST, timeout=10)) as chunks:
                async for _ in chunks:
                    break
            for _ in range(100):
                if server.cancelled:
                    break
                await asyncio.sleep(0.05)

    with FakeTriton(lambda _: [Reply(1, "a", 1), Reply(3_000, "b", 2)]) as server:
        asyncio.run(leave_early(server.url))
        assert server.cancelled == ["tensorrt_llm_bls"]


def test_token_details() -> None:
    replies = [
        Reply(1, "ab", 2, token_ids=(5, 6), token_texts=("a", "b"), prompt_ids=(1, 2, 3)),
        Reply(2, "c", 3, token_ids=(7,), token_texts=("c",)),
        Reply(2, None, final=True),
    ]
    with FakeTriton(lambda _: replies) as server:
        chunks = collect(server.url, FrontendRequest("p", 3, token_details=True))
    assert server.received[0].inputs["return_token_details"] == [True]
    first, second = chunks[0].details, chunks[1].details
    assert first is not None
    assert second is not None
    assert (first.ids, first.texts, first.drafted, first.prompt_ids) == ((5, 6), ("a", "b"), (False, False), (1, 2, 3))
    assert (second.ids, second.prompt_ids) == ((7,), None)


def test_counts_and_sources_of_drafts_from_the_text() -> None:
    counts: dict[str, Any] = {"steps": 3, "drafted": 12, "accepted": 5, "histogram": (1, 1, 0, 0, 1)}
    tokens: dict[str, Any] = {"token_ids": (5, 6, 7), "token_texts": ("a", "b", "c"), "sources": (2, 1)}
    replies = [
        Reply(1, "a", 1, **counts),
        Reply(2, "abc", 3, **counts, **tokens, lookups=(2, 8, 4)),
        Reply(2, None, final=True),
    ]
    with FakeTriton(lambda _: replies) as server:
        without, looked_up, _ = collect(server.url, FrontendRequest("p", 3, token_details=True))
    assert without.counters == Counters(None, 1, 3, 12, 5, (1, 1, 0, 0, 1))
    assert looked_up.counters == Counters(None, 3, 3, 12, 5, (1, 1, 0, 0, 1), 2, 8, 4)
    assert looked_up.details is not None
    assert (looked_up.details.sources, looked_up.details.drafted) == ((2, 1, 0), (True, True, False))


def test_probes() -> None:
    async def ask(url: str) -> tuple[dict[str, str], dict[str, ModelCounts]]:
        async with Connection(url) as connection:
            await wait_ready(connection, timeout=5)
            return (await model_tensors(connection)).inputs, await model_counts(connection)

    with FakeTriton(lambda _: answer(["x"])) as server:
        collect(server.url)
        inputs, counts = asyncio.run(ask(server.url))
    assert inputs == {"text_input": "BYTES"}
    assert counts["tensorrt_llm_bls"].success == 1


def test_never_ready_is_told_within_the_timeout() -> None:
    async def wait(url: str) -> None:
        async with Connection(url) as connection:
            await wait_ready(connection, timeout=0.4)

    start = time.perf_counter()
    with FakeTriton(lambda _: [], ready=False) as server, pytest.raises(ServerUnreachable, match="not ready"):
        asyncio.run(wait(server.url))
    assert time.perf_counter() - start < 2


def test_leaf_logits() -> None:
    async def ask(url: str) -> list[float]:
        async with Connection(url) as connection:
            return [float(x) for x in await next_token_logits(connection, [4, 5], timeout=5)]

    with FakeTriton(lambda _: [Reply(1, None, logits=(0.5, -1.0, 2.0)), Reply(1, None, final=True)]) as server:
        assert asyncio.run(ask(server.url)) == [0.5, -1.0, 2.0]
    sent = server.received[0]
    assert sent.model == "tensorrt_llm"
    assert (sent.inputs["input_ids"], sent.inputs["input_lengths"], sent.inputs["request_output_len"]) == (
        [4, 5],
        [2],
        [1],
    )
