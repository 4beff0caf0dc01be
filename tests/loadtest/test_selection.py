from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tests.loadtest.fakes import record
from trtspec.loadtest.records import Record
from trtspec.loadtest.selection import Group, groups_of, mark_start_bursts
from trtspec.loadtest.summary import summarise
from trtspec.loadtest.table import table_of
from trtspec.loadtest.throughput import Load, measure_load


def group_at(records: Sequence[Record], concurrency: int) -> Group:
    return groups_of(mark_start_bursts(table_of(records)))["baseline", f"concurrency {concurrency}"]


def load_of(measured: Sequence[Record], others: Sequence[Record]) -> Load:
    table = table_of([*measured, *others])
    rows = np.arange(len(table))
    return measure_load(table, rows[: len(measured)], rows[len(measured) :])


def burst_run(*, marked: bool = False) -> list[Record]:
    """20 requests over 8 connections; the first 8 start together and wait five times as long for their first text."""
    records = [record([(500, 1), (600, 9)], start_ms=0, concurrency=8, marked=marked) for _ in range(8)]
    records += [record([(100, 1), (200, 9)], start_ms=600 + 25 * i, concurrency=8, marked=marked) for i in range(12)]
    return records


def test_the_start_burst_is_left_out_and_counted() -> None:
    """A burst at the start is left out, and counted."""
    summary = summarise(burst_run())
    baseline = summary["arms"]["baseline"]
    assert baseline["requests"] == {"ok": 12, "failed": 0, "excluded": 8}
    assert baseline["time_to_first_token"]["p90"] == 0.1


def test_records_that_say_what_they_are_are_taken_at_their_word() -> None:
    group = group_at(burst_run(marked=True), 8)
    assert len(group.measured) == 20


def test_no_burst_without_a_closed_loop() -> None:
    """All times zero (hand-made), or more at once than connections: nothing is left out."""
    same = [record(start_ms=0, concurrency=4, marked=False) for _ in range(12)]
    assert group_at(same, 4).excluded == 0
    alone = [record(start_ms=20.0 * i, concurrency=1, marked=False) for i in range(12)]
    assert group_at(alone, 1).excluded == 0


def test_warm_up_and_fill_are_excluded_and_failures_are_not() -> None:
    records = [
        record(excluded="warm-up"),
        record(excluded="fill", cancelled=True),
        record(error="boom"),
        record(cancelled=True),
        record(cancelled=True, cancel_reason="disconnect"),
        record(cancelled=True, cancel_reason="timeout"),
        record([]),
        record(),
    ]
    group = group_at(records, 1)
    assert (len(group.measured), len(group.failed), group.excluded) == (1, 3, 4)
    assert group.error_rate == 0.75
    assert [found.ok for found in records] == group.table.ok.tolist()
    assert [found.failed for found in records] == group.table.failed.tolist()


def test_throughput_counts_active_time_only() -> None:
    """The pause in which the other arm had its turn is not this arm's; tokens of fill requests are."""
    first = record([(500, 5), (1000, 5)], start_ms=0)
    second = record([(500, 5), (1000, 5)], start_ms=5000)
    fill = replace(record([(600, 3), (1600, 7)], start_ms=0, excluded="fill"), cancelled=True)
    load = load_of([first, second], [fill])
    assert load.seconds == 2.0
    assert load.tokens == 23
    assert load.requests_per_second == 1.0


def test_overlapping_requests_share_their_time() -> None:
    load = load_of([record([(1000, 10)], start_ms=0), record([(1000, 10)], start_ms=500)], [])
    assert (load.seconds, load.tokens) == (1.5, 20)
