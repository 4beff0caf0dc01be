"""The columns say what the records say, whichever way they were read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loadtest.fakes import MS, counters, line, record, write_lines
from trtspec.errors import RecordsError
from trtspec.loadtest import reading
from trtspec.loadtest.columns import RawBatch
from trtspec.loadtest.raw_values import NotPlain
from trtspec.loadtest.reading import read_records, read_table
from trtspec.loadtest.records import ChunkRecord, Record, RecordWriter, parse_record, record_json
from trtspec.loadtest.sample import Sample
from trtspec.loadtest.table import NEVER, Table, TableBuilder, joined, table_of
from trtspec.loadtest.timeline import output_tokens
from trtspec.wire.messages import Counters, ServerStamps

ODD = [
    record([(5, None, ""), (60, 0, ""), (120, 2, "Hi"), (300, None, "")]),
    record([(10, 1, "a"), (20, 1, ""), (30, 1, "bc"), (40, 1, "")]),
    record([(10, 2, ""), (30, 2, "")]),
    record([(10, None), (30, None)], server=Counters(num_output_tokens=7)),
    record([(10, 2), (30, None)], counted_tokens=9, tokens_source="tokenizer", protocol="openai-chat"),
    record([], error="boom", error_code="server_error"),
    record([], cancelled=True, cancel_reason="stop", excluded="fill"),
    record([(10, 1)], scheduled_ns=-5 * MS, load="poisson 5/s", worker=1, session="s", turn=2, block=3, order=1),
    record(arm="speculative", server=counters([1, 0, 2], 8), perf=ServerStamps(1, None, 3, 4), synthetic=True),
]


def assert_same(one: Table, other: Table) -> None:
    for field in fields(Table):
        if field.name not in {"names", "source"}:
            np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), err_msg=field.name)
    assert list(one.names) == list(other.names)


def written(path: Path, records: Sequence[Record]) -> Path:
    path.unlink(missing_ok=True)
    with RecordWriter(path) as writer:
        for one in records:
            writer.write(one)
    return path


def assert_told_by_columns(table: Table, row: int, one: Record) -> None:
    """What the timeline of a record says stands in its row."""
    timeline = one.timeline
    assert (table.ok[row], table.failed[row]) == (one.ok, one.failed)
    assert table.name(int(table.load[row])) == one.load
    if timeline is None:
        assert (table.arrivals[row], table.first_ns[row], table.max_stall_ns[row]) == (0, NEVER, -1)
        return
    times = (table.origin_ns[row], table.first_ns[row], table.last_ns[row])
    assert times == (timeline.origin_ns, timeline.first_ns, timeline.last_ns)
    counts = (table.tokens[row], table.tokens_after_first[row], table.answer_tokens[row], table.first_tokens[row])
    told = (timeline.tokens, timeline.tokens_after_first, output_tokens(one), timeline.arrivals[0].tokens)
    assert counts == tuple(-1 if count is None else count for count in told)
    sample = Sample(table, np.array([row]))
    assert sample.gaps.tolist() == timeline.gaps_ns
    assert sample.tokens.tolist() == [-1 if one.tokens is None else one.tokens for one in timeline.arrivals]
    assert table.max_stall_ns[row] == max(timeline.gaps_ns, default=-1)


chunk = st.tuples(st.integers(0, 50), st.sampled_from(["", "a", "né"]), st.sampled_from([None, 0, 1, 2, 5]))


@st.composite
def any_record(draw: st.DrawFn) -> Record:
    at, chunks = 0, []
    for gap, text, tokens in draw(st.lists(chunk, max_size=6)):
        at += gap
        chunks.append(ChunkRecord(at, text, tokens))
    return Record(
        arm=draw(st.sampled_from(["baseline", "speculative"])),
        prompt_id=draw(st.sampled_from(["p", "q"])),
        start_ns=0,
        end_ns=at,
        chunks=tuple(chunks),
        server=draw(
            st.sampled_from(
                [None, Counters(num_output_tokens=9), counters([0, 2], 2), counters([0, 2], 4, lookups=(1, 2, 1))]
            )
        ),
        counted_tokens=draw(st.sampled_from([None, 4])),
        error=draw(st.sampled_from([None, None, "boom"])),
        marked=True,
    )


@given(st.lists(any_record(), min_size=1, max_size=5))
@settings(max_examples=150, deadline=None)
def test_columns_are_what_the_timeline_of_each_record_says(records: list[Record]) -> None:
    table = table_of(records)
    for row, one in enumerate(records):
        assert_told_by_columns(table, row, one)


def test_odd_records_too() -> None:
    table = table_of(ODD)
    for row, one in enumerate(ODD):
        assert_told_by_columns(table, row, one)
    assert table.name(int(table.error[5])) == "boom"
    assert table.histogram_of(8) == (1, 0, 2)
    assert table.histogram_of(0) is None
    assert table.perf_rows.tolist() == [8]
    assert table.perf_ns.tolist() == [[1, NEVER, 3, 4]]
    assert (table.worker[7], table.turn[7], table.block[7], table.order[7]) == (1, 2, 3, 1)


def test_reading_a_file_gives_the_table_of_its_records(tmp_path: Path) -> None:
    path = written(tmp_path / "requests.jsonl", ODD)
    table = read_table(path)
    assert_same(table, table_of(ODD))
    assert table.records([8, 0]) == [ODD[8], ODD[0]]
    assert read_records(path) == ODD


def test_unusual_but_right_lines_go_the_careful_way_to_the_same_table(tmp_path: Path) -> None:
    """Whole numbers written as 12.0, a text that is null, blank lines, Windows line ends."""
    usual = write_lines(tmp_path / "usual.jsonl", [line(), line(concurrency=4)])
    text = json.dumps({**json.loads(line()), "start_ns": 0.0, "category": "code"})
    unusual = tmp_path / "unusual.jsonl"
    unusual.write_bytes(f"\n{text}\r\n  \n{line(concurrency=4.0)}\n".encode())
    assert_same(read_table(usual), read_table(unusual))
    assert read_table(unusual).records([1])[0].concurrency == 4


@pytest.mark.parametrize("processes", [1, 2])
def test_many_stretches_and_processes_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    path = written(tmp_path / "requests.jsonl", ODD * 20)
    whole = read_table(path)
    monkeypatch.setattr(reading, "_STRETCH", 2000)
    assert_same(whole, read_table(path, processes=processes))
    assert read_table(path, processes=processes).records([170, 3]) == [(ODD * 20)[170], ODD[3]]


@pytest.mark.parametrize("processes", [1, 2])
def test_a_broken_line_far_down_keeps_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    monkeypatch.setattr(reading, "_STRETCH", 1000)
    path = write_lines(tmp_path / "r.jsonl", [*[line()] * 30, line(arm="treatment"), *[line()] * 10, "{"])
    with pytest.raises(RecordsError, match="'arm' must be") as caught:
        read_table(path, processes=processes)
    assert caught.value.where == f"{path}:31"


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(line().encode() + b"\n" + line(category="caf?").encode().replace(b"?", b"\xe9") + b"\n")
    with pytest.raises(RecordsError, match="not UTF-8") as caught:
        read_table(path)
    assert caught.value.where == f"{path}:2"


KEYS = sorted({*json.loads(line()), *record_json(record()), "warmup"})
PLACES = [*((key,) for key in KEYS), *(("chunks", 0, key) for key in ("t_ns", "text", "tokens"))]
PLACES += [("server", key) for key in ("num_spec_steps", "num_lookup_steps", "acceptance_histogram")]
PLACES += [("perf", "arrival_ns"), ("chunks", 1)]
any_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["t_ns", "x"]), inner, max_size=1),
    max_leaves=3,
)


@given(st.sampled_from(PLACES), any_json)
@settings(max_examples=600, deadline=None)
def test_the_fast_way_takes_nothing_that_the_careful_way_would_not_take_the_same(
    place: tuple[str | int, ...], value: Any
) -> None:
    data: dict[str, Any] = json.loads(line(server={"num_spec_steps": 1, "acceptance_histogram": [1]}, perf={}))
    inner: Any = data
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    text = json.dumps(data)
    batch = RawBatch()
    try:
        batch.add_object(orjson.loads(text))
        columns = batch.columns()
    except (NotPlain, orjson.JSONDecodeError):
        return
    assert_same(joined([columns], Nowhere()), table_of([parse_record(text)]))


class Nowhere:
    def load(self, rows: Sequence[int]) -> list[Record]:
        raise NotImplementedError(rows)


def test_a_builder_keeps_no_texts() -> None:
    """10 000 answers of 128 chunks fit where their texts would not."""
    builder = TableBuilder()
    long = record([(10 + i, 1, "word ") for i in range(128)])
    for _ in range(2100):
        builder.add(long)
    table = builder.table()
    assert_same(table, table_of([long] * 2100))
    assert sum(getattr(table, name).nbytes for name in ("chunk_ns", "chunk_tokens", "chunk_visible")) < 4_000_000
    with pytest.raises(LookupError):
        table.records([0])
