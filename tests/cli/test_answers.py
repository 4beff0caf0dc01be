"""How an answer shows whether its drafts came from a model or from the text."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from trtspec.cli.answers import AnswerView, answer_data, statistics_line
from trtspec.cli.output import Sink
from trtspec.serving import Endpoint
from trtspec.wire import Answer, Chunk, Counters, TokenDetails

ENDPOINT = Endpoint("127.0.0.1:1", "speculative", started=False)
DETAILS = TokenDetails((1, 2, 3), ("one", " two", " three"), (1, 2, 0))


def answer(*lookups: int) -> Answer:
    found = Answer()
    counters = Counters(5, 3, 2, 8, 2, (0, 2), *lookups)
    found.add(Chunk(1, "one two three", 3, counters, DETAILS, finish_reason="stop"), 0.5)
    return found


def terminal() -> tuple[Sink, io.StringIO]:
    notes = io.StringIO()
    out = Console(file=io.StringIO(), force_terminal=True, color_system="standard")
    return Sink(out=out, err=Console(file=notes, width=200)), notes


def test_what_the_text_was_good_for_stands_in_the_line() -> None:
    line = statistics_line(answer(1, 4, 1))
    assert "8 drafted · 2 accepted · of the text 1 rounds, 4 drafted, 1 accepted · acceptance rate 0.25" in line
    assert "of the text" not in statistics_line(answer())


def test_an_answer_without_a_draft_says_whether_one_was_looked_for() -> None:
    looked, never = Answer(), Answer()
    looked.add(Chunk(1, "a", 1, Counters(1, 0, 0, 0, 0, (), 0, 0, 0), finish_reason="length"), 0.1)
    never.add(Chunk(1, "a", 1, Counters(1, 0, 0, 0, 0, ()), finish_reason="length"), 0.1)
    assert " · nothing drafted · " in statistics_line(looked)
    assert " · no speculation · " in statistics_line(never)


def test_json_has_counts_and_the_source_of_each_token() -> None:
    data = answer_data(answer(1, 4, 1), ENDPOINT, "p")
    assert [token["source"] for token in data["tokens"]] == ["model", "text", "target"]
    assert [token["drafted"] for token in data["tokens"]] == [True, True, False]
    keys = ("num_lookup_steps", "num_lookup_draft_tokens", "num_accepted_lookup_tokens")
    assert tuple(data[key] for key in keys) == (1, 4, 1)
    without: dict[str, Any] = answer_data(answer(), ENDPOINT, "p")
    assert {*data} - {*without} == {*keys}
    assert all(set(token) == {"id", "text", "drafted"} for token in without["tokens"])


@pytest.mark.parametrize("lookups", [True, False])
def test_text_that_was_found_has_a_colour_of_its_own(capsys: pytest.CaptureFixture[str], lookups: bool) -> None:
    sink, notes = terminal()
    view = AnswerView(sink, lookups=lookups)
    view.show(Chunk(1, "one two three", 3, details=DETAILS))
    assert capsys.readouterr().out == "\x1b[32mone\x1b[0m\x1b[36m two\x1b[0m three"
    assert ("cyan: found in the text and accepted" in notes.getvalue()) == lookups
