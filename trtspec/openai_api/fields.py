"""Fields of OpenAI's API that are not served here: without effect on the answer, or refused with the reason.

OpenAI answers 400 to a field that it does not know; so does this endpoint. Source: the parameters of
`openai.types.completion_create_params` and `openai.types.chat.completion_create_params` (openai 1.60 to 3.57).
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from trtspec.openai_api.failures import ApiError

__all__ = ["served_fields"]

_IGNORED = frozenset(
    {
        "metadata",
        "parallel_tool_calls",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
    }
)
_ONE = "one answer per request; send the request again with another seed"
_TOOLS = "tools are not supported"
# field → values that ask for nothing (null always does), and why others are refused
_REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "n": ((1,), _ONE),
    "best_of": ((1,), _ONE),
    "logit_bias": (({},), "biases are not supported"),
    "echo": ((False,), "the prompt is not repeated in the answer"),
    "suffix": (("",), "text is only continued, not filled in"),
    "tools": (([],), _TOOLS),
    "tool_choice": (("none", "auto"), _TOOLS),
    "functions": (([],), _TOOLS),
    "function_call": (("none", "auto"), _TOOLS),
    "response_format": (({"type": "text"},), "guided decoding is not supported: the draft would not follow the guide"),
    "modalities": ((["text"],), "answers are text"),
    "audio": ((), "answers are text"),
    "moderation": ((), "answers are not moderated"),
    "prediction": ((), "predictions come from the draft model"),
    "reasoning_effort": (("none",), "the model's own template decides"),
    "top_logprobs": ((0,), "only the chosen token's log-probability is known"),
    "verbosity": ((), "say it in the prompt"),
    "web_search_options": ((), _TOOLS),
}


def served_fields(document: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The fields of `document` that are in `known`; ApiError for others that would change the answer."""
    for name, value in document.items():
        if name in known or name in _IGNORED:
            continue
        if name not in _REFUSED:
            raise _unknown(name, known)
        neutral, reason = _REFUSED[name]
        if value is not None and not any(type(one) is type(value) and one == value for one in neutral):
            raise ApiError(400, f"{name} is not supported here: {reason}", code="unsupported_parameter", param=name)
    return {name: value for name, value in document.items() if name in known}


def _unknown(name: str, known: Collection[str]) -> ApiError:
    close = difflib.get_close_matches(name, sorted(known), n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return ApiError(400, f"Unrecognized request argument supplied: {name}{hint}", code="unknown_parameter", param=name)
