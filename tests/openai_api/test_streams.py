"""Many streams at once, and clients that go away."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from typing import Any

import openai
import pytest

from tests.openai_api.http import get
from trtspec.openai_api import OpenaiServer

PROMPTS = [f"{word} {number}" for number in range(8) for word in ("hello world", "the lazy dog", "def add(a, b)", "I")]
LONG: dict[str, Any] = {"model": "toy", "prompt": "hello world", "max_tokens": 490}


async def streamed(client: openai.AsyncOpenAI, number: int, prompt: str) -> str:
    """The answer to a prompt, as a completion, or as a chat with that prompt as its template writes it."""
    if number % 2:
        stream = await client.chat.completions.create(
            model="toy", messages=[{"role": "user", "content": prompt}], max_tokens=24, stream=True
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    pieces = await client.completions.create(model="toy", prompt=prompt, max_tokens=24, stream=True)
    return "".join([chunk.choices[0].text async for chunk in pieces])


async def whole(client: openai.AsyncOpenAI, number: int, prompt: str) -> str:
    text = f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n" if number % 2 else prompt
    return (await client.completions.create(model="toy", prompt=text, max_tokens=24)).choices[0].text


def test_32_streams_at_once_do_not_mix(front: OpenaiServer) -> None:
    async def run() -> tuple[list[str], list[str]]:
        async with openai.AsyncOpenAI(base_url=front.url, api_key="unused", max_retries=0) as client:
            together = await asyncio.gather(*(streamed(client, *item) for item in enumerate(PROMPTS)))
            alone = [await whole(client, *item) for item in enumerate(PROMPTS)]
        return together, alone

    together, alone = asyncio.run(run())
    assert len(together) == 32
    assert len(set(together)) > 4
    assert together == alone


def cancelled(front: OpenaiServer) -> int:
    """Requests that the frontend ended because their client had gone."""
    found = re.search(
        r'trtspec_requests_total\{[^}]*result="cancelled"[^}]*\} (\d+)', get(front, "/metrics").body.decode()
    )
    return int(found[1]) if found else 0


def running(front: OpenaiServer) -> int:
    found = re.search(r"trtspec_running_requests\{[^}]*\} (\d+)", get(front, "/metrics").body.decode())
    return int(found[1]) if found else 0


def wait_until(condition: Any, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.05)


def connected(front: OpenaiServer, body: dict[str, Any]) -> socket.socket:
    """A connection on which `body` has been sent, and nothing was read."""
    data = json.dumps(body).encode()
    lines = [
        "POST /v1/completions HTTP/1.1",
        "Host: x",
        "Content-Type: application/json",
        f"Content-Length: {len(data)}",
    ]
    link = socket.create_connection((front.settings.host, front.settings.port))
    link.sendall("\r\n".join([*lines, "", ""]).encode() + data)
    return link


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_ends_its_request(front: OpenaiServer, stream: bool) -> None:
    wait_until(lambda: running(front) == 0)
    before = cancelled(front)
    with connected(front, {**LONG, "stream": stream}) as link:
        if stream:
            assert link.recv(9) == b"HTTP/1.1 "
        else:
            wait_until(lambda: running(front) == 1)
    wait_until(lambda: cancelled(front) == before + 1 and running(front) == 0)


def test_closing_a_stream_of_the_client_ends_its_request(front: OpenaiServer, client: openai.OpenAI) -> None:
    before = cancelled(front)
    with client.completions.create(**LONG, stream=True) as stream:
        next(iter(stream))
    wait_until(lambda: cancelled(front) == before + 1)


def test_one_more_than_may_run_is_told_to_come_back(narrow_front: OpenaiServer) -> None:
    with openai.OpenAI(base_url=narrow_front.url, api_key="unused", max_retries=0) as client:
        with client.completions.create(**LONG, stream=True) as stream:
            next(iter(stream))
            with pytest.raises(openai.RateLimitError) as caught:
                client.completions.create(**LONG)
            assert caught.value.code == "busy"
            assert caught.value.response.headers["retry-after"] == "1"
            with pytest.raises(openai.RateLimitError):
                client.completions.create(**LONG, stream=True)
            list(stream)
        assert client.completions.create(**{**LONG, "max_tokens": 2}).choices[0].text
