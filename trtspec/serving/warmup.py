"""The first requests, sent by us: they pay for what a server does once, and show that it answers.

Through the frontend, as clients will: Triton's own model_warmup on the frontend would run before the models behind it
are ready. Each way of drafting verifies a draft: that costs a server other work than a single token.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trtspec.serving.ports import connect_host
from trtspec.spec.names import DRAFT_MODEL, FRONTEND_MODEL

__all__ = ["WarmupFailed", "repeating_prompt", "warm_up", "warmup_requests"]

# its end stands nowhere else in it, so that a draft is the model's
_PROMPT = "The quick brown fox jumps over the lazy dog."
_TOKENS = 8
_REPEATS = 2


class WarmupFailed(Exception):
    """A request that should have been answered was not; the text is the server's."""


def repeating_prompt(lookup_match: int) -> str:
    """A text whose last `lookup_match` tokens stand in it before, whatever tokens its words are.

    The first word has no space before it, so its tokens may be others; one word more is what the match follows.
    """
    return " ".join(["again"] * (lookup_match + 2))


def warmup_requests(models: tuple[str, ...], frontend: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The bodies: plain ones, and one for each source of drafts; none without our frontend.

    frontend: its model parameters.
    """
    if FRONTEND_MODEL not in models:
        return
    plain = {"text_input": _PROMPT, "max_tokens": _TOKENS, "stream": True}
    for _ in range(_REPEATS):
        yield {**plain, "num_draft_tokens": 0}
        if DRAFT_MODEL in models:
            yield plain
        if frontend.get("lookup") == "true":
            yield {**plain, "text_input": repeating_prompt(int(frontend.get("lookup_match") or 2))}


def warm_up(host: str, port: int, requests: Iterable[Mapping[str, Any]], *, timeout: float) -> list[float]:
    """Send the bodies one after the other; the seconds that each took. WarmupFailed when one gets no whole answer."""
    return [_send(host, port, body, timeout) for body in requests]


def _send(host: str, port: int, body: Mapping[str, Any], timeout: float) -> float:
    begin = time.monotonic()
    connection = http.client.HTTPConnection(connect_host(host), port, timeout=timeout)
    try:
        connection.request("POST", f"/v2/models/{FRONTEND_MODEL}/generate_stream", json.dumps(dict(body)))
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", errors="replace")
    except (OSError, http.client.HTTPException) as error:
        raise WarmupFailed(str(error) or type(error).__name__) from None
    finally:
        connection.close()
    if problem := _problem(answer.status, text):
        raise WarmupFailed(problem)
    return time.monotonic() - begin


def _problem(status: int, text: str) -> str | None:
    """Why an answer is none; streams carry later errors in an event."""
    events = [line.removeprefix("data:").strip() for line in text.splitlines() if line.strip()]
    for event in events:
        try:
            data = json.loads(event)
        except ValueError:
            return f"an answer that is no JSON: {event[:200]}"
        if isinstance(data, dict) and "error" in data:
            return str(data["error"]).partition("\n")[0]
    if status != http.client.OK:
        return f"HTTP status {status}"
    return None if events else "an empty answer"
