"""What servers other than ours may do to an answer: no counts, one chunk, text and end together."""

from __future__ import annotations

import math
from typing import Any

from trtspec.openai_api.answers import Answer, ChatForm, CompletionForm, usage
from trtspec.wire import Chunk, Counters, TokenDetails


def parts(form: Any, *chunks: Chunk, include_usage: bool = False) -> list[dict[str, Any]]:
    answer = Answer(form, "id", "toy", include_usage)
    return [document for chunk in chunks for document in answer.parts(chunk)]


def test_usage_without_acceptance_has_no_details() -> None:
    assert usage(Counters(num_input_tokens=3, num_output_tokens=4)) == {
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "total_tokens": 7,
    }


def test_text_and_end_in_one_chunk() -> None:
    chunk = Chunk(0, "all", finish_reason="stop_word", final=True, counters=Counters(1, 2, 1, 4, 1))
    text, end, last = parts(CompletionForm(), chunk, include_usage=True)
    assert (text["choices"][0]["text"], text["choices"][0]["finish_reason"]) == ("all", None)
    assert (end["choices"][0]["text"], end["choices"][0]["finish_reason"]) == ("", "stop")
    assert last["choices"] == []
    assert last["usage"]["completion_tokens_details"] == {
        "accepted_prediction_tokens": 1,
        "rejected_prediction_tokens": 3,
    }


def test_an_empty_answer_still_has_a_role_and_an_end() -> None:
    opening, end = parts(ChatForm(), Chunk(0, "", finish_reason="stop"), Chunk(0, "", final=True))
    assert opening["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert end["choices"][0] == {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}


def test_chunks_without_text_make_no_piece() -> None:
    assert parts(CompletionForm(), Chunk(0, ""), Chunk(0, "", final=True)) == []


def test_a_log_probability_that_is_not_known_is_null() -> None:
    details = TokenDetails((1, 2), ("a", "\ufffd"), (0, 0))
    chunk = Chunk(0, "a\ufffd", details=details, log_probs=(-0.5, math.nan), finish_reason="length")
    logprobs = Answer(ChatForm(), "id", "toy").whole([chunk])["choices"][0]["logprobs"]
    assert logprobs["content"] == [
        {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []},
        {"token": "\ufffd", "logprob": None, "bytes": None, "top_logprobs": []},
    ]
