"""Both of Triton's protocols on the real server, with a model whose responses leave at known times.

How accurate the arrival times are is measured in benchmarks/loadgen; here they may be late, but never early, in another
order, or stamped by the reading task instead of at arrival.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import aclosing

import pytest

from tests.conftest import ServeRepository
from tests.wire.collecting import collect, collect_many
from tests.wire.known_timing import plan_request, sent, timing_repository
from trtspec.errors import RequestFailed
from trtspec.serving import RunningServer
from trtspec.wire import Chunk, FrontendRequest, detect_target, open_target

pytestmark = pytest.mark.triton

PROTOCOLS = ("http", "grpc")


@pytest.fixture(scope="module")
def triton(serve_repository: ServeRepository, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serve_repository(timing_repository(tmp_path_factory.mktemp("timing"))) as server:
        yield server


def address(server: RunningServer, protocol: str) -> str:
    return f"http://{server.http_url}" if protocol == "http" else server.grpc_url


def content(chunks: list[Chunk]) -> list[Chunk]:
    return [chunk for chunk in chunks if chunk.text]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_response_is_stamped_when_it_arrives(triton: RunningServer, protocol: str) -> None:
    at = [30, 31, 32, 80, 80, 200]  # a burst, a stall
    start = time.perf_counter_ns()
    chunks = collect(address(triton, protocol), plan_request(at, [3, 1, 2, 5, 1, 4]))
    end = time.perf_counter_ns()
    assert [chunk.tokens for chunk in content(chunks)] == [3, 1, 2, 5, 1, 4]
    assert [chunk.final for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    times = [chunk.t_ns for chunk in content(chunks)]
    assert times == sorted(times)
    for chunk, planned in zip(content(chunks), at, strict=True):
        stamps = sent(chunk)
        assert start <= stamps.received_ns <= stamps.sent_ns <= chunk.t_ns <= end
        assert stamps.sent_ns - stamps.received_ns >= planned * 1e6


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_reader_that_wakes_late_does_not_move_the_stamps(triton: RunningServer, protocol: str) -> None:
    """What arrived while nobody read keeps its own arrival time: over HTTP; gRPC reads when it is asked to."""

    async def slow_reader() -> list[Chunk]:
        async with open_target(address(triton, protocol)) as target:
            await target.wait_ready(timeout=30)
            chunks = []
            async with aclosing(target.stream(plan_request([5, 50, 100, 150]), timeout=30)) as stream:
                async for chunk in stream:
                    chunks.append(chunk)
                    await asyncio.sleep(2 if len(chunks) == 1 else 0)
            return chunks

    chunks = content(asyncio.run(slow_reader()))
    lags = [(chunk.t_ns - sent(chunk).sent_ns) / 1e6 for chunk in chunks]
    assert all(lag >= 0 for lag in lags), lags
    if protocol == "http":
        # about 1900 ms, were it the reader's time
        assert all(lag < 1000 for lag in lags), lags


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_streams_side_by_side_keep_to_themselves(triton: RunningServer, protocol: str) -> None:
    requests = [plan_request([20 + index, 60, 100], [index + 1, 2, 3]) for index in range(32)]
    answers = collect_many(address(triton, protocol), requests)
    for index, chunks in enumerate(answers):
        assert [chunk.tokens for chunk in content(chunks)] == [index + 1, 2, 3]
        assert len({sent(chunk).received_ns for chunk in content(chunks)}) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_error_after_some_responses_fails_the_request(triton: RunningServer, protocol: str) -> None:
    with pytest.raises(RequestFailed, match="boom"):
        collect(address(triton, protocol), plan_request([1, 2, 3], end="error"))


def test_an_answer_that_does_not_say_why_it_ended_is_not_whole(triton: RunningServer) -> None:
    with pytest.raises(RequestFailed) as caught:
        collect(address(triton, "http"), plan_request([1, 2], end="cut"))
    assert caught.value.code == "ended_early"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_servers_own_stamps_come_along(triton: RunningServer, protocol: str) -> None:
    chunks = content(collect(address(triton, protocol), plan_request([10, 20])))
    perf = chunks[-1].perf
    assert perf is not None
    first = sent(chunks[0])
    assert perf.arrival_ns == first.received_ns
    assert perf.first_token_ns == first.received_ns + 10_000_000
    assert perf.last_token_ns is not None
    assert perf.first_token_ns <= perf.last_token_ns <= chunks[-1].t_ns
    assert chunks[0].perf is None


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_answer_in_time(triton: RunningServer, protocol: str) -> None:
    with pytest.raises(RequestFailed) as caught:
        collect(address(triton, protocol), plan_request([5, 20_000]), timeout=1)
    assert caught.value.code == "timeout"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_there(triton: RunningServer, protocol: str) -> None:
    facts = asyncio.run(detect_target(address(triton, protocol)))
    assert (facts.kind, facts.protocol, facts.model) == (f"triton-{protocol}", protocol, "tensorrt_llm_bls")
    assert facts.models == ("tensorrt_llm_bls",)
    assert facts.counts_tokens
    assert facts.one_piece is None
    assert facts.server["name"] == "triton"
    assert facts.server["version"]
    assert facts.configuration["model_transaction_policy"] == {"decoupled": True}
    assert facts.as_json()["models"] == ["tensorrt_llm_bls"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_servers_counts_grow_with_ours(triton: RunningServer, protocol: str) -> None:
    async def count() -> list[int]:
        async with open_target(address(triton, protocol)) as target:
            found = []
            for _ in range(2):
                counts = await target.counts()
                assert counts is not None
                found.append(counts["tensorrt_llm_bls"].success)
                async with aclosing(target.stream(plan_request([1]), timeout=30)) as stream:
                    assert [chunk async for chunk in stream]
            return found

    before, after = asyncio.run(count())
    assert after == before + 1


def test_an_unknown_model_is_told(triton: RunningServer) -> None:
    for protocol in PROTOCOLS:
        with pytest.raises(RequestFailed):
            collect(address(triton, protocol), FrontendRequest("{}", 1), kind=f"triton-{protocol}", model="nobody")
