"""Servers whose own numbers or answers make no sense: what is recorded of them can be read again, and has failed."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.loadtest.test_sender import Scripted, job, sent
from trtspec.errors import UsageError
from trtspec.loadtest.records import Record, parse_record, record_line
from trtspec.wire import Chunk, Counters, ServerStamps


def of(*chunks: Chunk, failure: Any = None) -> Record:
    (record,) = sent(Scripted(chunks, failure), job())
    read = parse_record(record_line(record).decode())
    assert (read.error, read.server, read.perf) == (record.error, record.server, record.perf)
    return record


def piece(text: str, **fields: Any) -> Chunk:
    # arrives after the request is sent, however slowly this machine gets there
    return Chunk(time.perf_counter_ns() + 10**10, text, 1, **fields)


@pytest.mark.parametrize("wrong", [-1, 2**63, 2.5, True, "7"])
def test_counts_that_count_nothing_fail_the_request_and_are_not_written(wrong: Any) -> None:
    record = of(piece("a", counters=Counters(3, 1, num_draft_tokens=wrong, acceptance_histogram=(1, wrong))))
    assert record.server == Counters(3, 1)
    assert record.error == "the server's own numbers make no sense: num_draft_tokens, acceptance_histogram"
    assert record.error_code == "bad_response"
    assert not record.ok


def test_stamps_beyond_64_bits_fail_the_request() -> None:
    record = of(piece("a", perf=ServerStamps(2**64, 5, None, 9)))
    assert record.perf == ServerStamps(None, 5, None, 9)
    assert record.error == "the server's own numbers make no sense: arrival_ns"


def test_what_makes_sense_is_kept_as_it_is() -> None:
    counters, perf = Counters(3, 2, 1, 4, 1, (0, 1)), ServerStamps(1, 2, 3, 4)
    record = of(piece("a", counters=counters, perf=perf))
    assert record.ok
    assert record.server is counters
    assert record.perf is perf


def test_an_answer_without_end_is_broken_off() -> None:
    target = Scripted([piece("a" * 2**16) for _ in range(200)])
    (record,) = sent(target, job())
    assert record.error == "the answer does not end: it was asked for 20 tokens at most"
    assert record.error_code == "endless"
    assert len(record.text) < 2 * 2**20
    assert target.closed_early == 1


def test_many_small_pieces_without_end_are_broken_off_too() -> None:
    (record,) = sent(Scripted([piece("", counters=None)._replace(tokens=1)] * 20_000), job())
    assert record.error_code == "endless"


def test_a_model_that_is_gone_fails_the_request() -> None:
    record = of(failure=UsageError("http://x serves 0 models: none"))
    assert record.error_code == "unavailable"
