"""OpenAI-compatible streams as vLLM, SGLang, trtllm-serve and others write them, from a scripted server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from tests.wire.collecting import collect
from tests.wire.sse_server import Asked, Head, Send, SseServer, Step, event, events, json_answer
from trtspec.errors import RequestFailed, ServerUnreachable, UsageError
from trtspec.wire import Chunk, FrontendRequest, detect_target

REQUEST = FrontendRequest("Hello", 8)
DONE = b"[DONE]"
OWNERS = {"vllm": True, "sglang": True, "tensorrt_llm": True, "trtspec": False, "someone": False}


def delta(content: str | None = None, reason: str | None = None, **more: Any) -> dict[str, Any]:
    """A piece of a chat."""
    choice = {"index": 0, "delta": {} if content is None else {"content": content}, "finish_reason": reason}
    return {"id": "1", "object": "chat.completion.chunk", "choices": [choice], **more}


def usage(made: int, asked: int = 5, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": asked, "completion_tokens": made, "total_tokens": asked + made, **more}


def server(
    *steps: Step, owner: str = "vllm", models: tuple[str, ...] = ("m",), documents: Mapping[str, Any] | None = None
) -> SseServer:
    """Answers every request for text with `steps` (default: a good answer)."""
    pages = {"/v1/models": {"data": [{"id": name, "owned_by": owner} for name in models]}, **(documents or {})}

    def script(asked: Asked) -> Iterable[Step]:
        if asked.method == "POST":
            return steps or events(delta("x"), delta(reason="stop"), DONE)
        page = pages.get(asked.path)
        return json_answer({"detail": "Not Found"}, 404) if page is None else json_answer(page)

    return SseServer(script)


def answered(*steps: Step, kind: str = "auto", request: FrontendRequest = REQUEST) -> list[Chunk]:
    with server(*steps) as there:
        return collect(f"{there.url}/v1", request, kind=kind)


def failure(*steps: Step) -> RequestFailed:
    with server(*steps) as there, pytest.raises(RequestFailed) as caught:
        collect(f"{there.url}/v1", REQUEST)
    return caught.value


def test_counts_with_every_piece() -> None:
    chunks = answered(
        *events(
            {**delta("", role="assistant"), "usage": usage(0)},
            delta("ab", usage=usage(3)),
            delta("", usage=usage(4)),  # a token without text yet, as trtllm-serve sends it
            delta("c", "length", usage=usage(6)),
            {"id": "1", "choices": [], "usage": usage(6)},
            DONE,
        )
    )
    assert [chunk.text for chunk in chunks] == ["", "ab", "", "c", "", ""]
    assert [chunk.tokens for chunk in chunks] == [0, 3, 1, 2, 0, None]
    assert chunks[3].finish_reason == "length"
    assert [chunk.final for chunk in chunks] == [False] * 5 + [True]


def test_counts_only_at_the_end() -> None:
    details = {"accepted_prediction_tokens": 4, "rejected_prediction_tokens": 2}
    last = {"choices": [], "usage": usage(7, completion_tokens_details=details)}
    chunks = answered(*events(delta("ab"), delta("c"), delta(reason="stop"), last, DONE))
    assert [chunk.tokens for chunk in chunks if chunk.text] == [None, None]
    counters = chunks[-2].counters
    assert counters is not None
    assert (counters.num_input_tokens, counters.num_output_tokens) == (5, 7)
    assert (counters.num_draft_tokens, counters.num_accepted_tokens) == (6, 4)


def test_absent_is_not_zero() -> None:
    nothing = {"accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}
    pieces = [delta("a"), delta("b", "stop", usage=usage(2, completion_tokens_details=nothing)), DONE]
    counters = answered(*events(*pieces))[1].counters
    assert counters is not None
    assert (counters.num_draft_tokens, counters.num_accepted_tokens, counters.num_spec_steps) == (None, None, None)
    assert all(chunk.counters is None for chunk in answered(*events(delta("a"), delta(reason="stop"), DONE)))


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_generated_text(name: str) -> None:
    thought = {"choices": [{"index": 0, "delta": {name: "hm"}, "finish_reason": None}]}
    chunks = answered(*events(delta("", role="assistant"), thought, delta("yes"), delta(reason="stop"), DONE))
    assert [chunk.text for chunk in chunks if chunk.text] == ["hm", "yes"]


def test_completions() -> None:
    pieces = [{"choices": [{"index": 0, "text": text, "finish_reason": reason}]} for text, reason in
              (("a", None), ("b", None), ("", "stop"))]  # fmt: skip
    with server(*events(*pieces, DONE)) as there:
        chunks = collect(f"{there.url}/v1", REQUEST, kind="openai-completions")
    assert [chunk.text for chunk in chunks if chunk.text] == ["a", "b"]
    asked = there.asked[-1]
    assert asked.path == "/v1/completions"
    assert asked.document["prompt"] == "Hello"
    assert "messages" not in asked.document


def test_what_is_sent() -> None:
    full = FrontendRequest(
        "", 3, temperature=0.5, seed=7, stop_words=("a",), top_k=2, top_p=0.9, min_tokens=1, presence_penalty=0.5,
        frequency_penalty=-0.5, repetition_penalty=1.5, num_draft_tokens=2,
        messages='[{"role": "user", "content": "é"}]',
    )  # fmt: skip
    with server() as there:
        collect(f"{there.url}/v1/chat/completions", REQUEST)
        collect(f"{there.url}/v1", full, model="other")
    first, second = (asked.document for asked in there.asked if asked.method == "POST")
    options = {"include_usage": True, "continuous_usage_stats": True}
    # they sample unless they are told not to
    assert first == {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8,
                     "temperature": 0, "stream": True, "stream_options": options}  # fmt: skip
    assert second == {
        "model": "other", "messages": [{"role": "user", "content": "é"}], "max_tokens": 3, "temperature": 0.5,
        "stream": True, "stream_options": options, "seed": 7, "stop": ["a"], "top_k": 2, "top_p": 0.9, "min_tokens": 1,
        "presence_penalty": 0.5, "frequency_penalty": -0.5, "repetition_penalty": 1.5, "num_draft_tokens": 2,
    }  # fmt: skip


@pytest.mark.parametrize(("owner", "continuous"), OWNERS.items())
def test_running_counts_are_asked_for_where_they_are_known(owner: str, continuous: bool) -> None:
    with server(owner=owner) as there:
        collect(f"{there.url}/v1", REQUEST)
        collect(f"{there.url}/v1", FrontendRequest("a", 1, include_usage=False))
    counted, uncounted = (asked.document for asked in there.asked if asked.method == "POST")
    assert counted["stream_options"].get("continuous_usage_stats", False) is continuous
    assert "stream_options" not in uncounted


def test_an_answer_in_one_piece() -> None:
    document = {"choices": [{"message": {"role": "assistant", "content": "ab"}, "finish_reason": "stop"}],
                "usage": usage(2)}  # fmt: skip
    chunks = answered(*json_answer(document), request=FrontendRequest("a", 8, stream=False))
    assert [(chunk.text, chunk.tokens) for chunk in chunks] == [("ab", 2), ("", None)]


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        ({"error": {"message": "out\nof memory", "type": "InternalServerError", "code": 500}}, "InternalServerError",
         "out of memory"),
        ({"error": {"message": "gone", "type": "x", "code": "cancelled"}}, "cancelled", "gone"),
        ({"object": "error", "message": "no", "type": "BadRequestError", "code": 400}, "BadRequestError", "no"),
        ({"error": "model not ready"}, "server_error", "model not ready"),
        ({"error": {}}, "server_error", "no message"),
    ],
)  # fmt: skip
def test_error_events_in_a_stream_that_then_ends_well(error: Any, code: str, message: str) -> None:
    found = failure(*events(delta("a"), error, DONE))
    assert (found.code, found.message) == (code, message)


@pytest.mark.parametrize("reason", ["abort", "error", "cancelled"])
def test_answers_that_were_cut_off(reason: str) -> None:
    assert failure(*events(delta("a"), delta(reason=reason), DONE)).code == reason


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        (events(delta("a"), delta(reason="stop")), "ended_early"),  # no [DONE]
        (events(delta("a"), DONE), "ended_early"),  # no finish_reason
        ([*events(delta("a")), Send(b'data: {"choi')], "ended_early"),
        (events(delta(""), delta(reason="stop"), DONE), "empty"),
        (events(b"hello", DONE), "ended_early"),
        (events(17, DONE), "bad_response"),
    ],
)
def test_what_is_no_whole_answer(steps: list[Step], code: str) -> None:
    assert failure(*steps).code == code


def test_done_without_a_blank_line_is_an_end() -> None:
    chunks = answered(*events(delta("a"), delta(reason="stop")), Send(b"data: [DONE]"))
    assert chunks[-1].final


@pytest.mark.parametrize(
    ("status", "document", "code", "message"),
    [
        (
            404,
            {"error": {"message": "no model x", "type": "NotFoundError", "code": 404}},
            "NotFoundError",
            "no model x",
        ),
        (401, {"error": "Unauthorized"}, "http_401", "HTTP 401: Unauthorized"),
        (422, {"detail": [{"loc": ["body"], "msg": "bad"}]}, "http_422", "HTTP 422: [{'loc': ['body'], 'msg': 'bad'}]"),
        (500, {}, "http_500", "HTTP 500: {}"),
    ],
)
def test_refusals(status: int, document: Any, code: str, message: str) -> None:
    found = failure(*json_answer(document, status))
    assert (found.code, found.message) == (code, message)


def test_bad_text_does_not_kill_the_stream() -> None:
    broken = b'{"choices": [{"index": 0, "delta": {"content": "a\xff"}, "finish_reason": null}]}'
    lone = json.dumps(delta("b\ud83d")).encode()
    chunks = answered(*events(broken, lone, delta(reason="stop"), DONE))
    assert [chunk.text for chunk in chunks if chunk.text] == ["a\ufffd", "b\ufffd"]


def test_keep_alives_are_no_chunks() -> None:
    ping = b": ping\n\n"
    last = Send(ping + event(delta(reason="stop")))
    chunks = answered(Send(ping), *events(delta("a"), at_ms=30), last, Send(event(DONE)))
    assert [chunk.text for chunk in chunks] == ["a", "", ""]


def test_the_key_is_sent_along(monkeypatch: pytest.MonkeyPatch) -> None:
    with server() as there:
        collect(f"{there.url}/v1", REQUEST)
        monkeypatch.setenv("TRTSPEC_API_KEY", "secret")
        collect(f"{there.url}/v1", REQUEST)
    assert "authorization" not in there.asked[0].headers
    assert {asked.headers.get("authorization") for asked in there.asked[2:]} == {"Bearer secret"}


def test_several_models_must_be_told_apart() -> None:
    with server(models=("a", "b")) as there:
        with pytest.raises(UsageError, match="serves 2 models: a, b"):
            collect(f"{there.url}/v1", REQUEST)
        assert collect(f"{there.url}/v1", REQUEST, model="b")


def test_what_is_there() -> None:
    pages = {"/version": {"version": "0.9.1"}, "/health": {}}
    with server(documents=pages) as there:
        facts = asyncio.run(detect_target(f"{there.url}/v1"))
    assert (facts.kind, facts.protocol, facts.model, facts.models) == ("openai-chat", "openai-chat", "m", ("m",))
    assert facts.server == {"name": "vllm", "version": "0.9.1"}
    assert facts.counts_tokens


def test_sglang_tells_its_configuration() -> None:
    pages = {"/get_server_info": {"speculative_num_steps": 3, "internal_states": [1]}}
    with server(owner="sglang", documents=pages) as there:
        facts = asyncio.run(detect_target(there.url, kind="openai-completions"))
    assert facts.protocol == "openai-completions"
    assert facts.configuration == {"speculative_num_steps": 3}


def test_a_server_that_is_not_ready_is_waited_for() -> None:
    asked: list[str] = []

    def script(request: Asked) -> Iterable[Step]:
        asked.append(request.path)
        ready = asked.count("/health") > 3
        pages = {"/v1/models": {"data": [{"id": "m", "owned_by": "vllm"}]}}
        if request.path == "/health":
            return [Head(200 if ready else 503, "text/plain", 0)]
        return json_answer(pages.get(request.path, {}))

    with SseServer(script) as there:
        with pytest.raises(ServerUnreachable):
            asyncio.run(detect_target(f"{there.url}/v1", timeout=0.1))
        assert asyncio.run(detect_target(f"{there.url}/v1", timeout=30)).model == "m"
