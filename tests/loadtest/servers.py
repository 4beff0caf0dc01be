"""Scripted servers over HTTP for whole load tests: an OpenAI-compatible chat with a pace of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tests.wire.sse_server import Asked, SseServer, Step, events, json_answer

__all__ = ["chat_server", "pace"]

Pace = Callable[[Asked, int], dict[str, float]]


def pace(first_ms: float = 4.0, gap_ms: float = 2.0) -> Pace:
    """The same pace for every request."""
    return lambda _asked, _number: {"at_ms": first_ms, "gap_ms": gap_ms}


def chat_server(how: Pace | None = None, *, usage: bool = True) -> SseServer:
    """Answers a chat of n max_tokens with n words, one event each, at the pace of the request and its number."""
    how = how or pace()
    count = 0

    def script(asked: Asked) -> Iterable[Step]:
        nonlocal count
        if asked.method != "POST":
            good = asked.path == "/v1/models"
            return json_answer({"data": [{"id": "m", "owned_by": "vllm"}]} if good else {}, 200 if good else 404)
        count += 1
        tokens = asked.document.get("max_tokens") or asked.document["max_completion_tokens"]
        return events(*_pieces(asked.document, int(tokens), usage=usage), **how(asked, count - 1))

    return SseServer(script)


def _pieces(document: Any, tokens: int, *, usage: bool) -> list[Any]:
    last = document["messages"][-1]["content"]
    pieces: list[Any] = [
        {"choices": [{"index": 0, "delta": {"content": f"w{(len(last) * 7 + i) % 97} "}, "finish_reason": None}]}
        for i in range(tokens)
    ]
    pieces.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
    if usage:
        counts = {"prompt_tokens": 5, "completion_tokens": tokens, "total_tokens": 5 + tokens}
        pieces.append({"choices": [], "usage": counts})
    return [*pieces, b"[DONE]"]
