from __future__ import annotations

import pytest

from trtspec.errors import RequestFailed
from trtspec.openai_api.failures import api_error


@pytest.mark.parametrize(
    ("code", "message", "status", "kind", "shown"),
    [
        ("invalid_request", "…", 400, "invalid_request_error", "invalid_request"),
        ("prompt_too_long", "…", 400, "invalid_request_error", "context_length_exceeded"),
        ("no_chat_template", "…", 400, "invalid_request_error", "no_chat_template"),
        ("resource_exhausted", "…", 429, "rate_limit_error", "busy"),
        ("server_error", "Exceeds maximum queue size", 429, "rate_limit_error", "busy"),
        ("cancelled", "…", 499, "invalid_request_error", "cancelled"),
        ("target_failed", "out of blocks", 500, "server_error", "target_failed"),
        ("internal", "…", 500, "server_error", "internal"),
        ("ended_early", "…", 500, "server_error", "ended_early"),
        ("unavailable", "…", 503, "server_error", "unavailable"),
        ("server_error", "Request for unknown model: 'x' is not found", 503, "server_error", "model_not_ready"),
        ("server_error", "x has no available versions", 503, "server_error", "model_not_ready"),
        ("server_error", "x version 1 is not at ready state", 503, "server_error", "model_not_ready"),
        ("server_error", "model x is not ready", 503, "server_error", "model_not_ready"),
        ("timeout", "…", 504, "server_error", "timeout"),
    ],
)
def test_each_failure_has_its_status(code: str, message: str, status: int, kind: str, shown: str) -> None:
    error = api_error(RequestFailed(message, code=code))
    assert error.status == status
    assert error.document() == {"error": {"message": message, "type": kind, "param": None, "code": shown}}
    assert error.response().headers.get("retry-after") == ("1" if status in (429, 503) else None)


@pytest.mark.parametrize(
    ("message", "shown", "param"),
    [
        ("text_input has no tokens", "prompt has no tokens", "prompt"),
        ("stop_words has 65 texts", "stop has 65 texts", "stop"),
        ("messages[0] has no role", "messages[0] has no role", "messages"),
        ("num_draft_tokens 9 is more", "num_draft_tokens 9 is more", "num_draft_tokens"),
        ("the prompt has 600 tokens", "the prompt has 600 tokens", None),
    ],
)
def test_clients_are_told_the_field_by_their_own_name(message: str, shown: str, param: str | None) -> None:
    error = api_error(RequestFailed(message, code="invalid_request"))
    assert (str(error), error.param) == (shown, param)
    assert api_error(RequestFailed(message, code="internal")).param is None
