"""The request bodies that are served, checked."""

from __future__ import annotations

import json
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trtspec.openai_api.failures import ApiError
from trtspec.openai_api.fields import served_fields

__all__ = ["Body", "ChatBody", "CompletionBody", "read_body"]

_INT32 = (1 << 31) - 1
# fields that may have several forms: what is said of a value that has none of them
_FORMS = {
    "prompt": "a string, or a list of one string; token ids are not supported",
    "stop": "a string or a list of strings",
}
_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class StreamOptions(BaseModel):
    """`stream_options`."""

    model_config = _STRICT

    include_usage: bool | None = None
    include_obfuscation: bool | None = None  # padding against eavesdroppers; without effect here


class Body(BaseModel):
    """What both endpoints take. top_k, repetition_penalty, min_tokens and num_draft_tokens are not OpenAI's."""

    model_config = _STRICT

    model: str
    max_tokens: int | None = Field(None, ge=1, le=_INT32)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    seed: int | None = Field(None, ge=-(1 << 63), lt=1 << 64)
    stop: str | list[str] | None = None
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    top_k: int | None = Field(None, ge=0, le=_INT32)
    repetition_penalty: float | None = Field(None, gt=0)
    min_tokens: int | None = Field(None, ge=0, le=_INT32)
    num_draft_tokens: int | None = Field(None, ge=0, le=_INT32)

    @property
    def token_limit(self) -> int | None:
        """Most tokens of the answer; None: what fits."""
        return self.max_tokens

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def stop_words(self) -> tuple[str, ...]:
        """`stop`, always a list."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def wants_log_probs(self) -> bool:
        """Whether the chosen tokens' log-probabilities are asked for."""
        return False


class CompletionBody(Body):
    """`POST /v1/completions`."""

    prompt: str | list[str]
    logprobs: int | None = Field(None, ge=0, le=0, description="0: of the chosen tokens; more are not known")

    @property
    def text(self) -> str:
        """The one prompt; ApiError when there are several."""
        if isinstance(self.prompt, str):
            return self.prompt
        if len(self.prompt) != 1:
            raise ApiError(400, f"prompt is a list of {len(self.prompt)}; send one request each", param="prompt")
        return self.prompt[0]

    @property
    def wants_log_probs(self) -> bool:
        """`logprobs: 0` asks for them."""
        return self.logprobs is not None


class ChatBody(Body):
    """`POST /v1/chat/completions`."""

    messages: list[dict[str, Any]] = Field(min_length=1)
    max_completion_tokens: int | None = Field(None, ge=1, le=_INT32)
    logprobs: bool | None = None

    @property
    def token_limit(self) -> int | None:
        """max_completion_tokens, or its older name."""
        if self.max_tokens is not None and self.max_completion_tokens is not None:
            raise ApiError(400, "max_tokens and max_completion_tokens are both given", param="max_tokens")
        return self.max_completion_tokens if self.max_tokens is None else self.max_tokens

    @property
    def conversation(self) -> str:
        """The messages as JSON; keys without a value, as clients dump them, are left out."""
        given = [{key: value for key, value in message.items() if value is not None} for message in self.messages]
        return json.dumps(given, ensure_ascii=False)

    @property
    def wants_log_probs(self) -> bool:
        """`logprobs: true` asks for them."""
        return bool(self.logprobs)


_Kind = TypeVar("_Kind", bound=Body)


def read_body(kind: type[_Kind], data: bytes) -> _Kind:
    """The body in `data`; ApiError names the first field that is wrong."""
    document = _json(data)
    if not isinstance(document, dict):
        raise ApiError(400, "the body must be a JSON object", code="invalid_json")
    try:
        body = kind.model_validate(served_fields(document, kind.model_fields))
    except ValidationError as error:
        raise _refusal(error) from None
    if body.stream_options is not None and not body.stream:
        raise ApiError(400, "stream_options is only allowed with stream: true", param="stream_options")
    return body


def _refusal(error: ValidationError) -> ApiError:
    first = error.errors()[0]
    field, missing = str(first["loc"][0]), first["type"] == "missing"
    message = f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    if field in _FORMS and not missing:
        message = f"{field}: must be {_FORMS[field]}"
    return ApiError(400, message, code="missing_required_parameter" if missing else "invalid_value", param=field)


def _json(data: bytes) -> Any:
    try:
        return json.loads(data, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the body is not valid JSON: {error}", code="invalid_json") from None


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")
