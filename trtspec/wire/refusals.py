"""What servers say when they refuse a request or fail in the middle of an answer, as RequestFailed.

Shapes: Triton `{"error": "text"}`, in a stream under status 200 as well; OpenAI, vLLM and SGLang
`{"error": {"message", "type", "code"}}`; trtllm-serve (`ErrorResponse` of its openai_protocol.py) and older vLLM
`{"object": "error", "message", "type", "code"}`; FastAPI's own `{"detail": …}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trtspec.errors import RequestFailed

__all__ = ["document_error", "refusal", "stream_error"]

_SHOWN = 300  # characters of a body that is no JSON


def stream_error(text: str) -> RequestFailed:
    """RequestFailed for the error text of a response; its code is the word before the first colon, if it is one."""
    match = re.match(r"(?:.*?message: )?([a-z][a-z0-9_]*): (.+)", text, re.DOTALL)
    if match:
        return RequestFailed(_line(match[2]), code=match[1])
    return RequestFailed(_line(text), code="server_error")


def document_error(document: Any) -> RequestFailed | None:
    """The error that a JSON document of a stream carries; None when it is an answer."""
    if not isinstance(document, dict):
        return RequestFailed(f"not an answer: {_line(str(document))[:_SHOWN]}", code="bad_response")
    error = document.get("error")
    if error is None:
        return _object_error(document) if document.get("object") == "error" else None
    return _object_error(error) if isinstance(error, dict) else stream_error(str(error))


def refusal(status: int, document: Any, text: str) -> RequestFailed:
    """RequestFailed for an answer with another HTTP status than 200; `document` is None when `text` is no JSON."""
    found = document_error(document) if isinstance(document, Mapping) else None
    if found is None:
        detail = document.get("detail") if isinstance(document, Mapping) else None
        said = _line(str(detail) if detail else text)[:_SHOWN]
        return RequestFailed(f"HTTP {status}{': ' if said else ''}{said}", code=f"http_{status}")
    if found.code == "server_error":
        return RequestFailed(f"HTTP {status}: {found.message}", code=f"http_{status}")
    return found


def _object_error(error: Mapping[str, Any]) -> RequestFailed:
    message = _line(str(error.get("message") or "no message"))
    for word in (error.get("code"), error.get("type")):
        if isinstance(word, str) and word:
            return RequestFailed(message, code=word)
    return RequestFailed(message, code="server_error")


def _line(text: str) -> str:
    return " ".join(text.split())
