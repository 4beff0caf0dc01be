"""Tensors to requests and answers to tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from trtspec.errors import RequestFailed
from trtspec.torch_runtime.errors import RequestRefused
from trtspec.torch_runtime.request import GenerationRequest, Stats, Update
from trtspec.torch_runtime.tensors import Answer, LeafRequest, error_line, parse_request


def ints(*values: int) -> Any:
    return np.array([values], dtype=np.int32)


BASE = {"input_ids": ints(5, 6, 7), "input_lengths": ints(3), "request_output_len": ints(9)}


def test_the_least_request() -> None:
    parsed = parse_request(BASE)
    assert parsed == LeafRequest(GenerationRequest((5, 6, 7), 9))
    assert parsed.generation.sampling.greedy


def test_everything() -> None:
    words = np.array([[[1, 2, 3, 4], [1, 3, -1, -1]]], dtype=np.int32)
    parsed = parse_request(
        {
            **BASE,
            "input_lengths": ints(2),
            "draft_input_ids": ints(8, 9),
            "end_id": ints(2),
            "pad_id": ints(2),
            "stop_words_list": words,
            "bad_words_list": words,
            "streaming": np.array([[True]]),
            "exclude_input_in_output": np.array([[True]]),
            "return_generation_logits": np.array([[True]]),
            "return_perf_metrics": np.array([[True]]),
            "temperature": np.array([[0.5]], dtype=np.float32),
            "runtime_top_k": ints(4),
            "runtime_top_p": np.array([[0.25]], dtype=np.float32),
            "min_tokens": ints(3),
            "seed": np.array([[2**63 + 1]], dtype=np.uint64),
        }
    )
    generation = parsed.generation
    assert (generation.prompt, generation.draft, generation.end_id, generation.min_tokens) == ((5, 6), (8, 9), 2, 3)
    assert generation.stop_words == generation.bad_words == ((1,), (2, 3))
    assert (parsed.streaming, parsed.exclude_input, parsed.perf_metrics, generation.return_logits) == (True,) * 4
    sampling = generation.sampling
    assert (sampling.temperature, sampling.top_k, sampling.top_p, sampling.seed) == (0.5, 4, 0.25, 2**63 + 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"request_output_len": None}, "input request_output_len is missing"),
        ({"input_lengths": ints(4)}, "input_lengths is 4, but input_ids has 3 ids"),
        ({"lora_task_id": ints(1)}, "input lora_task_id is not supported"),
        ({"beam_width": ints(2)}, "beam_width 2 is not supported"),
        ({"input_ids": np.zeros((2, 3), np.int32)}, "input_ids has batch size 2"),
        ({"stop_words_list": np.zeros((1, 3, 2), np.int32)}, r"stop_words_list has shape \[1, 3, 2\]"),
        ({"stop_words_list": np.array([[[1, 2], [2, 5]]], np.int32)}, r"has end offsets \[2, 5\] for 2 ids"),
        ({"runtime_top_p": np.array([[1.5]], np.float32)}, "out of range"),
    ],
)
def test_refusals(change: dict[str, Any], message: str) -> None:
    tensors = {name: value for name, value in {**BASE, **change}.items() if value is not None}
    with pytest.raises(RequestRefused, match=message):
        parse_request(tensors)


def updates() -> list[Update]:
    logits = torch.arange(8.0).view(2, 4)
    return [
        Update((1, 2), Stats(3, 2, 4, 1), logits=logits),
        Update((3,), Stats(3, 3, 4, 1), "length", logits=logits[:1]),
    ]


def test_collected_answer_has_the_prompt_unless_excluded() -> None:
    for exclude, expected in ((False, [5, 6, 7, 1, 2, 3]), (True, [1, 2, 3])):
        answer = Answer(LeafRequest(GenerationRequest((5, 6, 7), 9), exclude_input=exclude, perf_metrics=True))
        first, last = (answer.take(update) for update in updates())
        assert first is None
        assert last is not None
        assert last["output_ids"].tolist() == [[expected]]
        assert last["sequence_length"].tolist() == [[len(expected)]]
        assert last["generation_logits"].shape == (1, 1, 3, 4)
        assert last["acceptance_rate"].tolist() == [[0.25]]


def test_streamed_answer_is_the_new_tokens_only() -> None:
    answer = Answer(LeafRequest(GenerationRequest((5, 6, 7), 9), streaming=True))
    sent = [answer.take(update) for update in updates()]
    assert [outputs["output_ids"].tolist() for outputs in sent if outputs] == [[[[1, 2]]], [[[3]]]]
    assert all("acceptance_rate" not in outputs for outputs in sent if outputs)


def test_logits_of_a_half_precision_model_are_sent_as_float32() -> None:
    answer = Answer(LeafRequest(GenerationRequest((5,), 1)))
    logits = torch.tensor([[0.5, 1.5]], dtype=torch.bfloat16)
    outputs = answer.take(Update((1,), Stats(1, 1), "length", logits=logits))
    assert outputs is not None
    assert outputs["generation_logits"].dtype == np.float32
    assert outputs["generation_logits"].tolist() == [[[[0.5, 1.5]]]]


@pytest.mark.parametrize("streaming", [False, True])
def test_log_probs_are_of_the_tokens_sent_and_add_up(streaming: bool) -> None:
    generation = GenerationRequest((5,), 9, return_log_probs=True)
    answer = Answer(LeafRequest(generation, streaming=streaming, exclude_input=True))
    parts = [
        Update((1, 2), Stats(1, 2), log_probs=(-0.5, -1.0)),
        Update((3,), Stats(1, 3), "length", log_probs=(-2.0,)),
    ]
    sent = [outputs for outputs in map(answer.take, parts) if outputs is not None]
    expected = [[-0.5, -1.0], [-2.0]] if streaming else [[-0.5, -1.0, -2.0]]
    assert [outputs["output_log_probs"].tolist() for outputs in sent] == [[[values]] for values in expected]
    assert sent[-1]["cum_log_probs"].tolist() == [[-3.5]]


def test_error_line() -> None:
    assert error_line(RequestFailed("too\nlong", code="prompt_too_long")) == "prompt_too_long: too long"
    assert error_line(ValueError("odd")) == "internal: odd"
