"""Failures as OpenAI's clients know them: a status, and `{"error": {message, type, param, code}}`."""

from __future__ import annotations

import json
import re
from typing import Any

from starlette.responses import Response

from trtspec.errors import RequestFailed

__all__ = ["ApiError", "api_error"]

_INVALID, _BUSY, _SERVER = "invalid_request_error", "rate_limit_error", "server_error"
# what the frontend, gRPC or the connection calls a failure → status, code (None: as it is called)
_KNOWN: dict[str, tuple[int, str | None]] = {
    "invalid_request": (400, None),
    "no_chat_template": (400, None),
    "prompt_too_long": (400, "context_length_exceeded"),
    "resource_exhausted": (429, "busy"),
    "busy": (429, None),
    "cancelled": (499, None),
    "unavailable": (503, None),
    "timeout": (504, None),
}
# Triton's own refusals have no code, only a text
_TEXTS = {
    "maximum queue size": (429, "busy"),
    "unknown model": (503, "model_not_ready"),
    "not at ready state": (503, "model_not_ready"),
    "is not ready": (503, "model_not_ready"),
    "has no available versions": (503, "model_not_ready"),
}
_RETRY = {429, 503}
# inputs of the frontend, with which its complaints begin → the fields that clients know
_FIELDS = {
    "text_input": "prompt",
    "stop_words": "stop",
    **{
        name: name
        for name in (
            "messages", "max_tokens", "min_tokens", "num_draft_tokens", "temperature", "top_p", "top_k", "seed",
            "repetition_penalty", "presence_penalty", "frequency_penalty",
        )
    },
}  # fmt: skip
_FIRST = re.compile("[a-z_]+")


class ApiError(Exception):
    """An answer that is an error; `param` names the field that is wrong."""

    def __init__(self, status: int, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param

    def document(self) -> dict[str, Any]:
        """The body of the answer."""
        kind = _SERVER if self.status >= 500 else _BUSY if self.status == 429 else _INVALID
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> Response:
        """The whole answer."""
        # ASCII only: a message may quote half a character that a client sent
        headers = {"retry-after": "1"} if self.status in _RETRY else {}
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        return Response(json.dumps(self.document()), self.status, headers, "application/json")


def api_error(failure: RequestFailed) -> ApiError:
    """What a client is told of a request that failed behind the endpoint."""
    status, code = _KNOWN.get(failure.code) or _by_text(failure.message)
    first = _FIRST.match(failure.message) if status == 400 else None
    field = _FIELDS.get(first[0]) if first else None
    message = f"{field}{failure.message[first.end() :]}" if first and field else failure.message
    return ApiError(status, message, code=code or failure.code, param=field)


def _by_text(message: str) -> tuple[int, str | None]:
    return next((known for text, known in _TEXTS.items() if text in message.lower()), (500, None))
