"""The product's own endpoint as a target of a load test, beside Triton's own protocols on the same server."""

from __future__ import annotations

import asyncio

import pytest

from tests.openai_api.conftest import MODELS
from tests.wire.collecting import collect
from trtspec.errors import RequestFailed
from trtspec.openai_api import OpenaiServer
from trtspec.serving import RunningServer
from trtspec.wire import Chunk, FrontendRequest, detect_target

pytestmark = pytest.mark.triton

REQUEST = FrontendRequest("the quick brown", 24)


def text(chunks: list[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks)


def made(chunks: list[Chunk]) -> tuple[int | None, int | None, int | None, int | None]:
    counters = next(chunk.counters for chunk in reversed(chunks) if chunk.counters is not None)
    drafted = (counters.num_draft_tokens, counters.num_accepted_tokens)
    return (counters.num_input_tokens, counters.num_output_tokens, *drafted)


def test_every_protocol_gives_the_same_answer_and_counts(front: OpenaiServer, triton: RunningServer) -> None:
    http = collect(f"http://{triton.http_url}", REQUEST)
    grpc = collect(triton.grpc_url, REQUEST)
    openai = collect(front.url, REQUEST, kind="openai-completions")
    assert text(http) == text(grpc) == text(openai) != ""
    assert made(http) == made(grpc) == made(openai)
    assert [chunk.tokens for chunk in http if chunk.text] == [chunk.tokens for chunk in grpc if chunk.text]
    counters = [[chunk.counters for chunk in chunks if chunk.finish_reason] for chunks in (http, grpc)]
    assert counters[0] == counters[1]
    # it tells its counts once, at the end
    assert all(chunk.tokens is None for chunk in openai if chunk.text)
    assert [chunk.finish_reason for chunk in openai if chunk.finish_reason] in (["stop"], ["length"])


def test_chats(front: OpenaiServer) -> None:
    chunks = collect(front.url, FrontendRequest("hello", 8))
    assert text(chunks)
    assert made(chunks)[1] == 8 or chunks[-1].final


def test_what_is_there(front: OpenaiServer) -> None:
    facts = asyncio.run(detect_target(front.url))
    assert (facts.kind, facts.model, facts.models) == ("openai-chat", MODELS[0], MODELS)
    assert facts.server["name"] == "trtspec"
    assert not facts.counts_tokens


def test_its_refusals(front: OpenaiServer, triton: RunningServer) -> None:
    with pytest.raises(RequestFailed) as caught:
        collect(front.url, REQUEST, model="nobody")
    assert caught.value.code == "model_not_found"
    long = FrontendRequest("the " * 3000, 8)
    found = []
    for url in (f"http://{triton.http_url}", triton.grpc_url, front.url):
        with pytest.raises(RequestFailed) as caught:
            collect(url, long)
        found.append(caught.value.code)
    assert found[0] == found[1] == "prompt_too_long"
    assert "http" not in found[2]


def test_a_key_is_needed(tight_front: OpenaiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RequestFailed):
        collect(tight_front.url, FrontendRequest("a", 1))
    monkeypatch.setenv("TRTSPEC_API_KEY", "a-key")
    assert collect(tight_front.url, FrontendRequest("a", 1))
