"""Records that nobody would write by hand and some would: an answer, or one line that says what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.loadtest.fakes import line, write_lines
from trtspec.errors import RecordsError
from trtspec.loadtest import read_run, summarise_run
from trtspec.loadtest.levels import parse_level


def summary(tmp_path: Path, **fields: Any) -> dict[str, Any]:
    lines = [line(arm=arm, prompt_id=f"p{at}", **fields) for arm in ("baseline", "speculative") for at in range(3)]
    found = summarise_run(read_run(write_lines(tmp_path / "requests.jsonl", lines)))
    json.dumps(found, allow_nan=False)
    return found


@pytest.mark.parametrize("time", [2**63 - 1, -(2**63) + 1, 2**62])
@pytest.mark.parametrize("name", ["start_ns", "end_ns", "scheduled_ns", "chunk"])
def test_times_whose_differences_do_not_fit_are_none(tmp_path: Path, name: str, time: int) -> None:
    fields: dict[str, Any] = {name: time}
    if name == "chunk":
        fields = {"chunks": [{"t_ns": time, "text": "a", "tokens": 1}]}
    if time < 0 and name != "scheduled_ns":
        fields["start_ns"] = time
    with pytest.raises(RecordsError, match=r"is no time in ns|is before"):
        summary(tmp_path, **fields)


@pytest.mark.parametrize("name", ["order", "turn", "block", "worker", "draft_length"])
def test_the_smallest_number_is_not_taken_for_none_at_all(tmp_path: Path, name: str) -> None:
    with pytest.raises(RecordsError, match=f"'{name}' must be a number of 64 bits"):
        summary(tmp_path, **{name: -(2**63)})


@pytest.mark.parametrize("label", ["poisson nan/s", "concurrency inf", "poisson -inf/s", "steps", "x " * 500, "nan"])
def test_a_load_by_any_name(tmp_path: Path, label: str) -> None:
    assert list(summary(tmp_path, load=label)["arms"]["baseline"]["by_load"]) == [label]


def test_a_level_without_a_finite_number_is_of_a_kind_of_its_own() -> None:
    assert parse_level("poisson nan/s").value is None
    assert parse_level("concurrency inf").kind == "concurrency inf"
    assert parse_level("poisson 5/s").value == 5


def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trtspec.loadtest.reading._STRETCH", 1 << 10)
    monkeypatch.setattr("trtspec.loadtest.reading._LONGEST_LINE", 1 << 14)
    path = write_lines(tmp_path / "requests.jsonl", [line(), line(prompt_id="x" * 8000), line()])
    assert len(read_run(path).records) == 3
    for text in ("x" * 40_000, line(prompt_id="x" * 40_000)):
        with pytest.raises(RecordsError, match="a line has more than"):
            read_run(write_lines(path, [line(), text, line()]))


def test_numbers_as_large_as_they_may_be(tmp_path: Path) -> None:
    late = 2**61 - 1
    chunks = [{"t_ns": late, "text": "a", "tokens": 2**40}]
    server = {"num_output_tokens": 2**40, "num_spec_steps": 2**40, "num_draft_tokens": 1, "num_accepted_tokens": 2**40}
    found = summary(tmp_path, start_ns=-late, end_ns=late, scheduled_ns=-late, chunks=chunks, server=server)
    assert found["arms"]["baseline"]["request_latency"]["mean"] == pytest.approx(2 * late * 1e-9)
