from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loadtest.fakes import MS, counters, line, record, write_lines
from trtspec.errors import RecordsError
from trtspec.loadtest.fields import FieldError
from trtspec.loadtest.reading import read_records
from trtspec.loadtest.records import RecordWriter, parse_record, record_json
from trtspec.loadtest.run_folder import read_run, summarise_run
from trtspec.wire.messages import ServerStamps

DESIGN_KEYS = {
    "arm", "prompt_id", "category", "concurrency", "scheduled_ns", "start_ns", "end_ns", "chunks", "error", "cancelled",
    "server",
}  # fmt: skip


def test_a_record_survives_writing_and_reading(tmp_path: Path) -> None:
    full = record(
        [(10, 3, "grüße "), (20, None, "🌍")],
        arm="speculative",
        server=counters([1, 0, 2], 8),
        pair_id="p~2",
        block=3,
        order=1,
        draft_length=4,
        max_tokens=64,
        finish_reason="stop",
        excluded="fill",
        synthetic=True,
        cancelled=True,
        load="poisson 5/s",
        cancel_reason="disconnect",
        tokens_source="tokenizer",
        counted_tokens=9,
        session="s1",
        turn=2,
        worker=1,
        protocol="openai-chat",
        perf=ServerStamps(1, 2, None, 4),
    )
    looked_up = record(arm="speculative", server=counters([1, 0, 2], 8, lookups=(2, 6, 4)))
    failed = record([], error="boom", error_code="server_error")
    path = tmp_path / "requests.jsonl"
    with RecordWriter(path) as writer:
        writer.write(full)
        writer.write(looked_up)
        writer.write(failed)
    assert read_records(path) == [full, looked_up, failed]


def test_lines_have_the_published_form() -> None:
    data = record_json(record([(10, 3)], server=counters([1, 2], 4)))
    assert set(data) >= DESIGN_KEYS
    assert data["chunks"] == [{"t_ns": 10 * MS, "text": "x", "tokens": 3}]
    assert data["server"] == {
        "num_input_tokens": 7,
        "num_output_tokens": 5,
        "num_spec_steps": 3,
        "num_draft_tokens": 4,
        "num_accepted_tokens": 2,
        "acceptance_histogram": [1, 2],
    }


def test_counts_of_lookups_stand_only_where_the_server_sends_them() -> None:
    without, told = (
        record_json(record(server=counters([1, 2], 4, lookups=lookups)))["server"] for lookups in ((), (2, 3, 1))
    )
    added = {"num_lookup_steps": 2, "num_lookup_draft_tokens": 3, "num_accepted_lookup_tokens": 1}
    assert told == {**without, **added}


def test_every_line_is_on_disk_at_once(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    with RecordWriter(path) as writer:
        writer.write(record())
        assert len(read_records(path)) == 1


def test_hand_made_lines_may_leave_out_what_is_optional(tmp_path: Path) -> None:
    minimal = {"arm": "baseline", "prompt_id": "a", "start_ns": 5, "chunks": [{"t_ns": 9, "text": "hi"}]}
    path = write_lines(tmp_path / "mine.jsonl", [json.dumps(minimal), "", "  "])
    (found,) = read_records(path)
    assert (found.end_ns, found.concurrency, found.scheduled_ns, found.server) == (9, 1, None, None)
    assert found.ok
    assert not found.marked


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{not json", "not valid JSON"),
        ("[1]", "a JSON object is expected"),
        (line(arm=...), "'arm' is missing"),
        (line(arm="treatment"), "'arm' must be 'speculative' or 'baseline', not \"treatment\""),
        (line(start_ns="soon"), "'start_ns' must be a whole number"),
        (line(start_ns=float("inf")), "'start_ns' must be a whole number"),
        (line(chunks=...), "'chunks' is missing"),
        (line(chunks=[{"text": "a"}]), "'chunks[0].t_ns' is missing"),
        (line(chunks=[{"t_ns": 1, "text": "a", "tokens": -1}]), "'chunks[0].tokens' must be 0 or more"),
        (line(chunks=[{"t_ns": 2, "text": "a"}, {"t_ns": 1, "text": "b"}]), "not in the order"),
        (line(start_ns=200 * MS), "'chunks[0].t_ns' is before 'start_ns'"),
        (line(end_ns=-1), "'end_ns' is before 'start_ns'"),
        (line(cancelled="no"), "'cancelled' must be true or false"),
        (line(cancel_reason="bored"), "'cancel_reason' must be 'timeout' or 'disconnect' or 'stop', not \"bored\""),
        (line(tokens_source="words"), "'tokens_source' must be 'server' or 'tokenizer' or 'none'"),
        (line(load=5), "'load' must be a string"),
        (line(perf={"arrival_ns": "late"}), "'perf.arrival_ns' must be a whole number"),
        (line(turn=0.5), "'turn' must be a whole number"),
        (line(server=[1]), "'server' must be an object"),
        (line(server={"num_lookup_steps": -1}), "'server.num_lookup_steps' must be 0 or more"),
        (line(server={"acceptance_histogram": [1, "x"]}), "'server.acceptance_histogram' must be a list of counts"),
    ],
)
def test_a_broken_line_is_named_with_what_is_wrong(tmp_path: Path, text: str, complaint: str) -> None:
    path = write_lines(tmp_path / "r.jsonl", [line(), text, line()])
    with pytest.raises(RecordsError) as caught:
        read_records(path)
    assert caught.value.where == f"{path}:2"
    assert complaint in caught.value.message


def test_a_killed_writer_leaves_all_but_the_last_line(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(line() + "\n" + line()[:70])
    warnings: list[str] = []
    assert len(read_records(path, warnings.append)) == 1
    assert warnings == [f"{path.name}:2: the last line is cut off and was left out"]


def test_a_whole_last_line_without_newline_counts(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(line() + "\n" + line())
    assert len(read_records(path)) == 2


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_nothing_in_it(tmp_path: Path, content: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(content)
    with pytest.raises(RecordsError, match="no requests"):
        read_records(path)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match="no such file"):
        read_records(tmp_path / "none.jsonl")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=4),
       st.sampled_from(sorted(DESIGN_KEYS)))  # fmt: skip
def test_any_value_anywhere_is_read_or_refused_in_words(value: object, key: str) -> None:
    # nothing but FieldError may come out
    with suppress(FieldError):
        parse_record(line(**{key: value}))


@pytest.mark.parametrize("number", [2**63, -(2**64), 10**400, 1e300])
@pytest.mark.parametrize("key", ["start_ns", "end_ns", "concurrency", "block"])
def test_numbers_that_nothing_can_reckon_with_are_refused(key: str, number: float) -> None:
    with pytest.raises(FieldError, match=key):
        parse_record(line(**{key: number}))


def test_text_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(FieldError, match="category"):
        parse_record(line(category="half \ud800"))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"start_ns": ' + "9" * 5000 + "}"], ids=["deep", "digits"])
def test_json_that_python_refuses_is_a_broken_line(text: str) -> None:
    with pytest.raises(FieldError, match="too"):
        parse_record(text)


@pytest.mark.parametrize("content", ["[]", "{", "[" * 100_000, '{"options": 5, "client": [], "servers": 3}'])
@pytest.mark.parametrize("name", ["provenance.json", "measurement.json", "divergence.json"])
def test_damaged_files_beside_the_records_are_told_and_left_out(tmp_path: Path, name: str, content: str) -> None:
    write_lines(tmp_path / "requests.jsonl", [line()])
    (tmp_path / name).write_text(content)
    warnings = summarise_run(read_run(tmp_path))["comparison"]["warnings"]
    assert any(name in warning for warning in warnings)


def test_a_disk_that_is_full_is_named_and_no_line_is_left_in_pieces_without_a_word(tmp_path: Path) -> None:
    code = """
import pathlib, resource, sys
from trtspec.loadtest.records import ChunkRecord, Record, RecordWriter
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
try:
    with RecordWriter(pathlib.Path(sys.argv[1])) as writer:
        while True:
            writer.write(Record("baseline", "p", 0, 1, (ChunkRecord(1, "x" * 300, 1),)))
except OSError as error:
    print(error.filename)
"""
    path = tmp_path / "requests.jsonl"
    argv = [sys.executable, "-c", code, str(path)]
    result = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert result.stdout.strip() == str(path), result.stderr
    assert path.stat().st_size == 5000
