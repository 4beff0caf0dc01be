"""Every wrong request gets a status and OpenAI's error object, and harms nobody."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import openai
import pytest

from tests.openai_api.conftest import KEY
from tests.openai_api.http import get, post
from trtspec.openai_api import OpenaiServer

GOOD: dict[str, Any] = {"model": "toy", "prompt": "hello", "max_tokens": 4}
CHAT: dict[str, Any] = {"model": "toy", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}
AUTHORIZED = {"Authorization": f"Bearer {KEY}"}
LONG = {**GOOD, "prompt": "hello world", "max_tokens": 490}  # seconds of work


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in GOOD.items() if key != name}


@pytest.mark.parametrize(
    ("body", "status", "param", "words"),
    [
        (without("model"), 400, "model", "required"),
        (without("prompt"), 400, "prompt", "required"),
        ({**GOOD, "model": "gpt-5"}, 404, "model", "'gpt-5' does not exist; there is toy"),
        ({**GOOD, "model": "\ud800"}, 404, "model", "does not exist"),
        ({**GOOD, "model": 7}, 400, "model", "string"),
        ({**GOOD, "prompt": ["a", "b"]}, 400, "prompt", "list of 2"),
        ({**GOOD, "prompt": []}, 400, "prompt", "list of 0"),
        ({**GOOD, "prompt": [1, 2]}, 400, "prompt", "token ids are not supported"),
        ({**GOOD, "prompt": "\ud83d"}, 400, "prompt", "unicode"),
        ({**GOOD, "prompt": ""}, 400, "prompt", "prompt has no tokens"),
        ({**GOOD, "prompt": "x " * 600}, 400, None, "the engine's limit is 512"),
        ({**GOOD, "max_tokens": 0}, 400, "max_tokens", "greater than or equal to 1"),
        ({**GOOD, "max_tokens": "4"}, 400, "max_tokens", "integer"),
        ({**GOOD, "max_tokens": 2**31}, 400, "max_tokens", "less than"),
        ({**GOOD, "temperature": 2.5}, 400, "temperature", "less than or equal to 2"),
        ({**GOOD, "temperature": -1}, 400, "temperature", "greater than or equal to 0"),
        ({**GOOD, "top_p": 1.5}, 400, "top_p", "less than or equal to 1"),
        ({**GOOD, "presence_penalty": 3}, 400, "presence_penalty", "less than or equal to 2"),
        ({**GOOD, "seed": 2**64}, 400, "seed", "less than"),
        ({**GOOD, "stop": ["a"] * 65}, 400, "stop", "the limit of this deployment is 64"),
        ({**GOOD, "stop": [1]}, 400, "stop", "stop: must be a string or a list of strings"),
        ({**GOOD, "stream": "yes"}, 400, "stream", "boolean"),
        ({**GOOD, "stream_options": {"include_usage": True}}, 400, "stream_options", "stream: true"),
        ({**GOOD, "stream": True, "stream_options": {"usage": True}}, 400, "stream_options", "usage"),
        ({**GOOD, "num_draft_tokens": 9}, 400, "num_draft_tokens", "max_draft_length 8"),
        ({**GOOD, "n": 2}, 400, "n", "one answer per request"),
        ({**GOOD, "n": True}, 400, "n", "one answer per request"),
        ({**GOOD, "logit_bias": {"5": 10}}, 400, "logit_bias", "biases"),
        ({**GOOD, "logprobs": 3}, 400, "logprobs", "less than or equal to 0"),
        ({**GOOD, "temprature": 1}, 400, "temprature", "did you mean temperature?"),
        ({**GOOD, "messages": []}, 400, "messages", "Unrecognized"),
        ([GOOD], 400, None, "must be a JSON object"),
        (b"{", 400, None, "not valid JSON"),
        (b'{"model": "toy", "prompt": "a", "temperature": NaN}', 400, None, "NaN"),
        (b"\xff", 400, None, "not valid JSON"),
        (b"[" * 100_000, 400, None, "not valid JSON"),
    ],
)
def test_completions(front: OpenaiServer, body: Any, status: int, param: str | None, words: str) -> None:
    reply = post(front, "/v1/completions", body)
    assert reply.status == status, reply.body
    assert reply.error["param"] == param
    assert reply.error["type"] == "invalid_request_error"
    assert words.lower() in reply.error["message"].lower()
    assert "\n" not in reply.error["message"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"messages": []}, "at least 1"),
        ({"messages": "hello"}, "list"),
        ({"messages": [{"role": "nobody", "content": "a"}]}, "nobody"),
        ({"messages": [{"role": "user"}]}, "needs content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]}, "no text"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "not valid unicode"),
        ({"max_completion_tokens": 5}, "both given"),
        ({"tools": [{"type": "function"}]}, "tools are not supported"),
        ({"tool_choice": "required"}, "tools are not supported"),
        ({"response_format": {"type": "json_object"}}, "guided decoding"),
        ({"logprobs": True, "top_logprobs": 2}, "only the chosen"),
        ({"prompt": "a"}, "Unrecognized"),
    ],
)
def test_chat(front: OpenaiServer, fields: dict[str, Any], words: str) -> None:
    reply = post(front, "/v1/chat/completions", {**CHAT, **fields})
    assert reply.status == 400, reply.body
    assert words.lower() in reply.error["message"].lower()


def test_the_official_client_raises_what_it_should(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(**{**GOOD, "prompt": "x " * 600})
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError) as missing:
        client.completions.create(**{**GOOD, "model": "gpt-5"})
    assert missing.value.code == "model_not_found"


def test_an_error_of_a_stream_has_a_status_too(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="the engine's limit is 512"):
        client.completions.create(**{**GOOD, "prompt": "x " * 600, "stream": True})


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [(post, "/v1/embeddings", 404), (get, "/v1/completions", 405), (get, "/", 404), (get, "/docs", 404)],
)
def test_other_paths(front: OpenaiServer, method: Any, path: str, status: int) -> None:
    reply = method(front, path, {}) if method is post else method(front, path)
    assert reply.status == status
    assert path in reply.error["message"]


def test_only_json_is_taken(front: OpenaiServer) -> None:
    """A web page may send text/plain to another origin unasked; then a visitor's own server would work for it."""
    reply = post(front, "/v1/completions", GOOD, {"Content-Type": "text/plain"})
    assert reply.status == 415
    assert post(front, "/v1/completions", GOOD, {"Content-Type": "Application/JSON; charset=utf-8"}).status == 200


def test_the_key(tight_front: OpenaiServer) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {KEY}"},
        {"Authorization": "Bearer ü"},
    ):
        for reply in (post(tight_front, "/v1/completions", GOOD, headers), get(tight_front, "/metrics", headers)):
            assert reply.status == 401
            assert reply.error["code"] == "invalid_api_key"
            assert reply.headers["www-authenticate"] == "Bearer"
    assert get(tight_front, "/health").status == 200
    assert get(tight_front, "/v1/models", AUTHORIZED).status == 200


@pytest.mark.parametrize("known_length", [True, False])
def test_a_body_that_is_too_long(tight_front: OpenaiServer, known_length: bool) -> None:
    body = json.dumps({**GOOD, "prompt": "x" * 3000}).encode()
    reply = post(tight_front, "/v1/completions", body if known_length else iter([body[:100], body[100:]]), AUTHORIZED)
    assert reply.status == 413
    assert reply.error["code"] == "body_too_large"


def test_a_client_that_goes_away_while_it_sends(front: OpenaiServer) -> None:
    with socket.create_connection((front.settings.host, front.settings.port)) as link:
        link.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
        link.sendall(b"Content-Length: 100\r\n\r\n{")
    assert get(front, "/health").status == 200
    assert "Traceback" not in front.log.read_text()


def test_a_request_that_takes_too_long(tight_front: OpenaiServer) -> None:
    reply = post(tight_front, "/v1/completions", LONG, AUTHORIZED)
    assert reply.status == 504
    assert reply.error == {
        "message": "no complete answer within 0.5 s",
        "type": "server_error",
        "param": None,
        "code": "timeout",
    }


def test_a_stream_that_takes_too_long_ends_with_the_error(tight_front: OpenaiServer) -> None:
    reply = post(tight_front, "/v1/completions", {**LONG, "stream": True}, AUTHORIZED)
    assert reply.status == 200
    *_, last = reply.body.decode().strip().split("\n\n")
    assert last.startswith('data: {"error":{"message":"no complete answer within 0.5 s"')


def test_nothing_behind_it(lonely_front: OpenaiServer) -> None:
    assert get(lonely_front, "/health/live").status == 200
    for reply in (
        get(lonely_front, "/health"),
        get(lonely_front, "/health/ready"),
        get(lonely_front, "/metrics"),
        post(lonely_front, "/v1/completions", {**GOOD, "model": "tensorrt_llm_bls"}),
        post(lonely_front, "/v1/completions", {**without("max_tokens"), "model": "tensorrt_llm_bls"}),
        post(lonely_front, "/v1/completions", {**GOOD, "model": "tensorrt_llm_bls", "stream": True}),
    ):
        assert reply.status == 503
        assert reply.error["type"] == "server_error"
        assert reply.headers["retry-after"] == "1"


def test_a_good_request_after_all_that(client: openai.OpenAI) -> None:
    begun = time.monotonic()
    assert client.completions.create(**GOOD).choices[0].text
    assert time.monotonic() - begun < 60
