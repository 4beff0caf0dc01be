"""Traces and profiles with rows that nobody expects: one line that says what is wrong, and where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trtspec.errors import UsageError
from trtspec.loadtest.arrivals import parse_profile
from trtspec.loadtest.prompts import Prompt
from trtspec.loadtest.trace import load_trace, trace_prompts

NUMBERS = ("true", '"5"', "NaN", "1e999", "9" * 400, "9" * 5000, "[1]", "{}", "-1e300")


def load(tmp_path: Path, text: str | bytes) -> Any:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_trace(path)


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_that_are_none(tmp_path: Path, number: str) -> None:
    for row in (f'{{"timestamp": {number}}}', f'{{"timestamp": 1, "output_length": {number}}}'):
        if number == '"5"' and "output" in row:  # as CSV has it
            continue
        if number == "true" and "output" in row:
            continue
        with pytest.raises(UsageError) as caught:
            load(tmp_path, f'{{"timestamp": 0}}\n{row}\n')
        assert caught.value.where == f"{tmp_path / 'trace.jsonl'}:2"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"timestamp": 0}\n{"timestamp": ' + "[" * 100_000 + "\n", 2),
        ('{"timestamp": 0, "prompt": "\\ud800"}\n', 1),
        ('{"timestamp": 0, "prompt": 5}\n', 1),
        ('{"timestamp": 0, "hash_ids": [2.5]}\n', 1),
        ("TIMESTAMP\n2023-11-16 18:17:03\n" + "x" * 200_000 + "\n", 2),
        ("TIMESTAMP,ContextTokens\n2023-11-16 18:17:03,many\n", 2),
        ("a,b\n1,2\n", 2),
    ],
)
def test_rows_that_are_none(tmp_path: Path, text: str, line: int) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, text)
    assert caught.value.where == f"{tmp_path / 'trace.jsonl'}:{line}"


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xff\xfe", b"[1]\n", b"\xef\xbb\xbf"])
def test_files_that_are_none(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(UsageError, match="trace:"):
        load(tmp_path, data)


def test_marks_ends_of_lines_and_separators_inside_texts_do_not_matter(tmp_path: Path) -> None:
    text = '\ufeff\n{"timestamp": 0, "prompt": "a\u2028b\u0085c"}\r\n{"timestamp": 5}\r\n'
    assert [row.prompt for row in load(tmp_path, text).rows] == ["a\u2028b\u0085c", None]


def test_an_answer_of_no_tokens_is_asked_for_one(tmp_path: Path) -> None:
    trace = load(tmp_path, '{"timestamp": 0, "output_length": 0}\n{"timestamp": 1}\n')
    prompts, _ = trace_prompts(trace, [Prompt("p", "code", "text", 20)], None, 1)
    assert [prompt.max_tokens for prompt in prompts] == [1, 20]


def test_a_profile_of_too_many_requests_is_refused() -> None:
    with pytest.raises(UsageError, match="sends 100,000,000 requests"):
        parse_profile("1:99999999,1:1")
