"""Reading a request, without a server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from trtspec.triton_models.frontend_deployment import Deployment
from trtspec.triton_models.frontend_inputs import (
    RequestError,
    parse_parameters,
    read_request,
    refuse_unknown_parameters,
)

DEPLOYMENT = Deployment.from_parameters(
    {
        "tensorrt_llm_model_name": "tensorrt_llm",
        "tensorrt_llm_draft_model_name": "tensorrt_llm_draft",
        "tokenizer_dir": "/tokenizer",
        "num_draft_tokens": "4",
        "max_draft_length": "8",
        "end_ids": "2,0",
        "max_seq_len": "512",
        "vocab_size": "320",
        "draft_timeout_seconds": "10.0",
    }
)


def tensors(**values: Any) -> dict[str, np.ndarray[Any, Any]]:
    given = {"text_input": b"hi", "max_tokens": np.int32(5), **values}
    return {
        name: np.array([value if isinstance(value, list) else [value]], np.object_ if _text(value) else None)
        for name, value in given.items()
    }


def _text(value: Any) -> bool:
    return isinstance(value, (bytes, list))


def test_defaults_are_the_deployments() -> None:
    request = read_request(tensors(), DEPLOYMENT)
    assert (request.text, request.max_tokens, request.stream, request.num_draft_tokens) == ("hi", 5, False, None)
    assert request.end_ids == (2, 0)
    assert (request.stop_words, dict(request.sampling), request.left_out) == ((), {}, frozenset())
    assert (request.with_prompt, request.details) == (False, False)


def test_words_are_read_and_empty_ones_dropped() -> None:
    request = read_request(tensors(stop_words=["é".encode(), b"", b"b"], bad_words=[b"x"]), DEPLOYMENT)
    assert (request.stop_words, request.bad_words) == (("é", "b"), ("x",))


@pytest.mark.parametrize(("end_id", "expected"), [(7, (7,)), (-1, ())])
def test_the_end_id_of_a_request_replaces_the_deployments(end_id: int, expected: tuple[int, ...]) -> None:
    assert read_request(tensors(end_id=np.int32(end_id)), DEPLOYMENT).end_ids == expected


def test_sampling_gets_the_targets_names_and_types() -> None:
    sampling = read_request(tensors(top_k=np.int32(5), seed=np.uint64(1 << 40)), DEPLOYMENT).sampling
    assert {name: (array.dtype.name, array.tolist()) for name, array in sampling.items()} == {
        "runtime_top_k": ("int32", [[5]]),
        "seed": ("uint64", [[1 << 40]]),
    }


def test_a_nucleus_of_nothing_is_the_likeliest_token() -> None:
    """TensorRT-LLM refuses a top_p of 0, which OpenAI's clients may send."""
    (value,) = read_request(tensors(top_p=np.float32(0)), DEPLOYMENT).sampling["runtime_top_p"].reshape(-1)
    assert 0 < value < 1e-5


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max_tokens": np.int32(0)}, "max_tokens must be at least 1, got 0"),
        ({"num_draft_tokens": np.int32(9)}, "num_draft_tokens 9 is more than the max_draft_length 8 .*"),
        ({"temperature": np.float32("nan")}, "temperature must be a number of at least 0, got nan"),
        ({"presence_penalty": np.float32("inf")}, "presence_penalty must be a number, got inf"),
        ({"top_p": np.float32(2)}, "top_p must be at most 1, got 2.0"),
        ({"top_p": np.float32("nan")}, "top_p must be a number of at least 0, got nan"),
        ({"repetition_penalty": np.float32(0)}, "repetition_penalty must be more than 0, got 0.0"),
        ({"repetition_penalty": np.float32(-1)}, "repetition_penalty must be a number of at least 0, got -1.0"),
        ({"min_tokens": np.int32(-1)}, "min_tokens must be at least 0, got -1"),
        ({"text_input": b"\xff"}, "text_input is not valid UTF-8"),
        ({"max_tokens": [1, 2]}, "max_tokens takes one value, got 2"),
        ({"beam_width": np.int32(2)}, "beam_width must be 1: speculation has one beam"),
        ({"use_draft_logits": np.bool_(1)}, "use_draft_logits is true, but this deployment accepts by tokens"),
        ({"messages": b"[]"}, "text_input and messages are both given; send one of them"),
        ({"stop_words": [b"x"] * 65}, "stop_words has 65 words; the limit of this deployment is 64"),
        ({"bad_words": [b"x"] * 65}, "bad_words has 65 words; the limit of this deployment is 64"),
        ({"stop_words": ["é".encode() * 513]}, "stop_words has a word of more than 1024 bytes"),
    ],
)
def test_mistakes_are_one_line_with_a_code(values: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=f"^invalid_request: {message}$") as caught:
        read_request(tensors(**values), DEPLOYMENT)
    assert caught.value.code == "invalid_request"


@pytest.mark.parametrize("name", ["text_input", "max_tokens"])
def test_what_is_required(name: str) -> None:
    given = {key: value for key, value in tensors().items() if key != name}
    with pytest.raises(RequestError, match=f"{name} is required"):
        read_request(given, DEPLOYMENT)


def test_unknown_parameters_are_refused_with_the_nearest_name() -> None:
    inputs = ["text_input", "max_tokens", "num_draft_tokens", "stop_words"]
    with pytest.raises(RequestError, match=r"unknown input stop_word; did you mean stop_words\?"):
        refuse_unknown_parameters({"stop_word": "x"}, inputs)
    with pytest.raises(RequestError, match="unknown input qqq; known are max_tokens, "):
        refuse_unknown_parameters({"qqq": 1}, inputs)
    refuse_unknown_parameters(parse_parameters('{"priority":1,"triton_enable_empty_final_response":true}'), inputs)
    refuse_unknown_parameters(parse_parameters(""), inputs)


@pytest.mark.parametrize(
    ("limits", "values", "message"),
    [
        ({"max_output_tokens": 4}, {}, "invalid_request: max_tokens 5 is more than the 4 of this deployment"),
        ({"max_prompt_bytes": 3}, {"text_input": b"long"}, "prompt_too_long: text_input has 4 bytes; .* is 3"),
        (
            {"max_prompt_bytes": 3},
            {"text_input": b"", "messages": b"[{}]"},
            "prompt_too_long: messages has 4 bytes; .* is 3",
        ),
        ({"max_words": 1}, {"stop_words": [b"a", b"b"]}, "invalid_request: stop_words has 2 words; .* is 1"),
    ],
)
def test_limits_of_the_deployment(limits: dict[str, int], values: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=f"^{message}$"):
        read_request(tensors(**values), replace(DEPLOYMENT, **limits))  # type: ignore[arg-type]


def test_messages_stand_in_place_of_a_text() -> None:
    given = {"max_tokens": tensors()["max_tokens"], "messages": np.array([[b"[1]"]], np.object_)}
    request = read_request(given, DEPLOYMENT)
    assert (request.text, request.messages) == ("", "[1]")


def test_old_leaves_have_other_names() -> None:
    sampling = read_request(tensors(seed=np.uint64(7)), replace(DEPLOYMENT, seed_name="random_seed")).sampling
    assert list(sampling) == ["random_seed"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lora_task_id", "LoRA adapters are not supported"),
        ("top_p_decay", "top-p decay"),
        ("guided_decoding_guide", "guided decoding is not supported"),
        ("return_log_probs", "the runtime of this deployment gives none"),
    ],
)
def test_what_nvidias_frontend_has_and_this_one_not_is_refused_with_the_reason(name: str, message: str) -> None:
    with pytest.raises(RequestError, match=f"^invalid_request: {name} is not supported here: {message}"):
        refuse_unknown_parameters({name: 1}, ["text_input", "max_tokens"])
