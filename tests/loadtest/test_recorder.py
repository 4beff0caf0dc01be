"""What a server does not count is counted between blocks, so that a time per token exists for any server."""

from __future__ import annotations

from pathlib import Path

from tests.loadtest.fakes import record
from trtspec.loadtest.reading import read_records
from trtspec.loadtest.recorder import Recorder
from trtspec.loadtest.records import Record, RecordWriter
from trtspec.loadtest.status import Tracker
from trtspec.wire.messages import Counters


def words(text: str) -> int:
    return len(text.split())


def written(path: Path, *records: Record) -> list[Record]:
    with RecordWriter(path) as writer:
        recorder = Recorder(writer, Tracker(len(records)), count_tokens=words)
        for one in records:
            recorder.add(one)
        recorder.flush()
    return read_records(path)


def test_whole_text_and_first_text_are_counted_where_the_server_counts_nothing(tmp_path: Path) -> None:
    silent = record([(5, None, ""), (10, None, "one two "), (30, None, "three "), (50, None, "four")])
    (found,) = written(tmp_path / "r.jsonl", silent)
    assert (found.tokens_source, found.counted_tokens) == ("tokenizer", 4)
    assert [chunk.tokens for chunk in found.chunks] == [None, 2, None, None]
    assert found.timeline is not None
    assert found.timeline.tokens_after_first == 2


def test_a_count_of_the_whole_answer_by_the_server_holds(tmp_path: Path) -> None:
    """A server that tells the number of tokens only once, with its last message."""
    told = record([(10, None, "one two "), (30, None, "three")], server=Counters(num_output_tokens=7))
    (found,) = written(tmp_path / "r.jsonl", told)
    assert found.tokens_source == "server"
    assert found.timeline is not None
    assert (found.timeline.tokens, found.timeline.tokens_after_first) == (7, 5)


def test_what_the_server_counted_is_left_alone_and_written_at_once(tmp_path: Path) -> None:
    counted = record([(10, 2, "one two "), (20, None, ""), (30, 1, "three")])
    with RecordWriter(tmp_path / "r.jsonl") as writer:
        Recorder(writer, Tracker(1), count_tokens=words).add(counted)
    assert read_records(tmp_path / "r.jsonl") == [counted]
