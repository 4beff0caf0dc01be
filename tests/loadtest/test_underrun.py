from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loadtest.fakes import record
from trtspec.loadtest.records import Record
from trtspec.loadtest.summary import summarise
from trtspec.loadtest.table import table_of
from trtspec.loadtest.underrun import READING_SPEED, ReadingSample, underrun_share, underruns


def sample_of(*records: Record, speed: float = READING_SPEED) -> ReadingSample:
    table = table_of(records)
    return ReadingSample(table, np.flatnonzero(table.ok), speed)


def simulated(one: Record, speed: float) -> float:
    """The reader, text by text."""
    timeline = one.timeline
    assert timeline is not None
    read = waited = 0.0
    for index, arrival in enumerate(timeline.arrivals):
        if index:
            waited += max(0.0, arrival.t_ns - read)
        read = max(read, arrival.t_ns) + (arrival.tokens or 0) / speed * 1e9
    return waited / (timeline.last_ns - timeline.first_ns)


def test_the_reader_waits_when_the_next_text_is_late() -> None:
    """At 10 tokens a second: read to 300 ms after 2 tokens, the next text comes at 500, then in time."""
    one = record([(100, 2), (500, 3), (700, 1)])
    assert underrun_share(sample_of(one, speed=10)).tolist() == pytest.approx([200 / 600])
    found = underruns(sample_of(one, speed=10))
    assert (found["share"], found["count"], found["reading_speed"]) == (1.0, 1, 10)


def test_bursts_of_the_same_pace_read_less_smoothly() -> None:
    """20 tokens in 2 s: one every 100 ms, or two together of which every other pair is 150 ms late."""
    steady = record([(100 + 100 * i, 1) for i in range(20)])
    bursts = record([(100 + 200 * i + (150 if i % 2 else 0), 2) for i in range(10)])
    assert underrun_share(sample_of(steady, speed=10)).tolist() == [0.0]
    assert underrun_share(sample_of(bursts, speed=10)).tolist() == pytest.approx([150 / 1950])


def test_the_speed_is_an_option_of_the_run() -> None:
    answers = [record([(100, 1), (200, 1), (300, 1)], prompt=f"p{i}", start_ms=1000 * i) for i in range(3)]
    slow, fast = (
        summarise(answers, {"options": {"reading_speed": speed}})["arms"]["baseline"]["underruns"] for speed in (5, 50)
    )
    assert (slow["share"], fast["share"]) == (0.0, 1.0)
    assert summarise(answers, {"options": {"reading_speed": 0}})["arms"]["baseline"]["underruns"]["reading_speed"] == 15


def test_without_token_counts_nobody_knows() -> None:
    found = underruns(sample_of(record([(100, None), (900, None)]), record([(100, 4)])))
    assert (found["share"], found["count"]) == (None, 0)
    assert found["reason"]
    # the last text's count is not needed: nothing comes after it
    assert underruns(sample_of(record([(100, 30), (900, None)], counted_tokens=40)))["share"] == 0.0


answers = st.lists(st.tuples(st.integers(1, 400), st.integers(1, 6)), min_size=2, max_size=12)


@given(st.lists(answers, min_size=1, max_size=6), st.floats(1, 100))
def test_all_rows_at_once_are_as_one_by_one(streams: list[list[tuple[int, int]]], speed: float) -> None:
    records = []
    for gaps in streams:
        at = np.cumsum([gap for gap, _ in gaps])
        records.append(record([(float(t), k) for t, (_, k) in zip(at, gaps, strict=True)]))
    expected = [simulated(one, speed) for one in records]
    assert underrun_share(sample_of(*records, speed=speed)).tolist() == pytest.approx(expected, abs=1e-9)
