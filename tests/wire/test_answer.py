from __future__ import annotations

import pytest

from trtspec.wire import Answer, Chunk, Counters, TokenDetails


def test_an_answer_adds_up() -> None:
    answer = Answer()
    answer.add(Chunk(0, "", tokens=0), 0.1)
    first = Counters(5, 2, 1, 4, 1, (0, 1))
    answer.add(Chunk(1, "Hello", 2, first, TokenDetails((1, 2), ("Hel", "lo wo"), (0, 1))), 0.2)
    last = Counters(5, 4, 2, 8, 2, (0, 2))
    answer.add(Chunk(2, " world", 2, last, TokenDetails((3, 4), ("rl", "d"), (2, 0)), True, "stop"), 0.5)
    assert answer.text == "Hello world"
    assert answer.token_ids == [1, 2, 3, 4]
    assert answer.sources == [0, 1, 2, 0]
    assert answer.drafted == [False, True, True, False]
    assert answer.time_to_first_token == 0.2
    assert answer.finish_reason == "stop"
    assert answer.acceptance_rate == 0.25
    assert answer.mean_acceptance_length == 2.0
    assert answer.tokens_per_second == pytest.approx(8.0)


def test_an_empty_last_message_takes_nothing_away() -> None:
    answer = Answer()
    answer.add(Chunk(0, "a", 1, Counters(num_output_tokens=1), finish_reason="length"), 0.1)
    answer.add(Chunk(1, "", final=True), 0.2)
    assert answer.counters.num_output_tokens == 1
    assert answer.finish_reason == "length"


def test_what_was_not_measured_is_none() -> None:
    answer = Answer()
    assert answer.acceptance_rate is None
    assert answer.mean_acceptance_length is None
    assert answer.tokens_per_second is None
    answer.add(Chunk(0, "a", 1, Counters(3, 1, 0, 0, 0, ())), 0.1)
    assert answer.acceptance_rate is None
    assert answer.mean_acceptance_length is None
