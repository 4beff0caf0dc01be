"""Every field of OpenAI's API is known here: served, without effect, or refused with a reason."""

from __future__ import annotations

import typing
from typing import Any

import pytest
from openai.types import completion_create_params
from openai.types.chat import completion_create_params as chat_create_params

from trtspec.openai_api.bodies import Body, ChatBody, CompletionBody
from trtspec.openai_api.failures import ApiError
from trtspec.openai_api.fields import served_fields
from trtspec.openai_api.translate import frontend_request


def names(parameters: Any) -> list[str]:
    return sorted(typing.get_type_hints(parameters))


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (CompletionBody, completion_create_params.CompletionCreateParamsNonStreaming),
        (ChatBody, chat_create_params.CompletionCreateParamsNonStreaming),
    ],
)
def test_none_is_unknown(kind: type[Body], parameters: Any) -> None:
    known = kind.model_fields
    assert len(names(parameters)) > 15
    for name in names(parameters):
        if name not in known:
            served_fields({name: None}, known)


def test_what_is_left_is_served() -> None:
    assert served_fields({"model": "m", "user": "u", "n": 1, "tools": None}, {"model"}) == {"model": "m"}
    with pytest.raises(ApiError, match=r"Unrecognized .*: modl; did you mean model\?"):
        served_fields({"modl": "m"}, {"model"})


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({}, (None, None, None)),
        ({"temperature": 0}, (None, None, 1)),
        ({"temperature": 0.0, "top_p": 0.5, "top_k": 7}, (None, None, 1)),
        ({"temperature": 0.7}, (0.7, 1.0, None)),
        ({"temperature": 0.7, "top_p": 0.5}, (0.7, 0.5, None)),
        ({"temperature": 0.7, "top_k": 5}, (0.7, None, 5)),
        ({"temperature": 0.7, "top_k": 0}, (0.7, 1.0, 0)),
        ({"top_p": 0.5}, (None, 0.5, None)),
    ],
)
def test_sampling_as_runtimes_understand_it(fields: dict[str, Any], sent: tuple[Any, ...]) -> None:
    request = frontend_request(CompletionBody(model="m", prompt="p", **fields), "id", 5)
    assert (request.temperature, request.top_p, request.top_k) == sent
