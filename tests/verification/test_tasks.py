from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trtspec.errors import UsageError
from trtspec.loadtest.prompts import Prompt
from trtspec.verification.tasks import Task, is_right, load_tasks


@pytest.mark.parametrize(
    ("match", "answer", "text", "right"),
    [
        ("exact", "Paris", " Paris\n", True),
        ("exact", "Paris", "Paris.", False),
        ("contains", "Paris", "It is Paris.", True),
        ("contains", "Paris", "It is paris.", False),
        ("regex", r"\b4[12]\b", "42 it is", True),
        ("regex", r"^42$", "42 it is", False),
        ("number", "1234", "so 3 + 4 … = 1,234.", True),
        ("number", "0.5", "half: .5", True),
        ("number", "-7", "it is -7.0", True),
        ("number", "7", "7 or 8", False),
        ("number", "7", "no idea", False),
        ("number", "1e3", "1000", True),
    ],
)
def test_matches(match: Any, answer: str, text: str, right: bool) -> None:
    assert is_right(Task(Prompt("t", "c", "?", 8), answer, match), text) is right


def write(path: Path, *lines: Any) -> Path:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def test_a_task_may_hold_a_line_separator(tmp_path: Path) -> None:
    line = json.dumps({"prompt": "2 + 3\u2028=", "answer": "5"}, ensure_ascii=False)
    assert load_tasks(write(tmp_path / "tasks.jsonl", line)).tasks[0].prompt.text == "2 + 3\u2028="


def test_a_file_of_tasks(tmp_path: Path) -> None:
    found = load_tasks(
        write(
            tmp_path / "tasks.jsonl",
            {"prompt": "2 + 3 =", "answer": "5", "match": "number", "max_tokens": 4, "category": "sum"},
            "",
            {"prompt": "Capital of France?", "answer": "Paris"},
        )
    )
    first, second = found.tasks
    assert (first.prompt.id, first.match, first.prompt.max_tokens, first.prompt.category) == (
        "task-1",
        "number",
        4,
        "sum",
    )
    assert (second.prompt.id, second.match) == ("task-3", "exact")
    assert len(found.prompts.prompts) == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not valid JSON"),
        ({"prompt": "x"}, "'answer' is missing"),
        ({"prompt": " ", "answer": "x"}, "'prompt' is empty"),
        ({"prompt": "x", "answer": "y", "match": "fuzzy"}, "'match' must be 'exact' or"),
        ({"prompt": "x", "answer": "(", "match": "regex"}, "no regular expression"),
        ({"prompt": "x", "answer": "many", "match": "number"}, "holds no number"),
    ],
)
def test_a_mistake_names_its_line(tmp_path: Path, line: Any, message: str) -> None:
    path = write(tmp_path / "tasks.jsonl", {"prompt": "a", "answer": "b"}, line)
    with pytest.raises(UsageError, match=message) as caught:
        load_tasks(path)
    assert caught.value.where == f"{path}:2"


def test_no_file_an_empty_one_and_a_name_given_twice(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_tasks(tmp_path / "none.jsonl")
    with pytest.raises(UsageError, match="no tasks"):
        load_tasks(write(tmp_path / "empty.jsonl", ""))
    twice = {"id": "a", "prompt": "x", "answer": "y"}
    with pytest.raises(UsageError, match="'a' is given twice"):
        load_tasks(write(tmp_path / "twice.jsonl", twice, twice))
