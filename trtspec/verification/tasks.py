"""Small labelled sets: whether speculation changes how many answers are right."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trtspec.errors import UsageError
from trtspec.files import json_lines
from trtspec.loadtest.fields import FieldError, Fields
from trtspec.loadtest.pairing import Pair
from trtspec.loadtest.prompts import Prompt, PromptSet
from trtspec.spec.names import BASELINE_ARM, SPECULATIVE
from trtspec.verification.statistics import mcnemar

__all__ = ["MATCHES", "Task", "TaskSet", "is_right", "load_tasks", "task_section"]

Match = Literal["exact", "contains", "regex", "number"]
MATCHES: tuple[Match, ...] = ("exact", "contains", "regex", "number")
_DEFAULT_MAX_TOKENS = 128
_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_CLOSE = 1e-6


@dataclass(frozen=True)
class Task:
    """A prompt and what makes an answer to it right."""

    prompt: Prompt
    answer: str
    match: Match


@dataclass(frozen=True)
class TaskSet:
    """The tasks of a file."""

    tasks: tuple[Task, ...]
    source: str
    sha256: str

    @property
    def prompts(self) -> PromptSet:
        """Their prompts."""
        return PromptSet(tuple(task.prompt for task in self.tasks), self.source, self.sha256)


def load_tasks(path: Path) -> TaskSet:
    """The tasks of a JSONL file with prompt, answer, match and perhaps id, category, max_tokens; UsageError if not."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"tasks cannot be read: {error}", where=str(path)) from None
    lines = [(number, line) for number, line in enumerate(json_lines(text), start=1) if line.strip()]
    if not lines:
        raise UsageError("no tasks in it", where=str(path))
    tasks = tuple(_task(line, f"{path}:{number}", number) for number, line in lines)
    ids = [task.prompt.id for task in tasks]
    twice = next((one for index, one in enumerate(ids) if one in ids[:index]), None)
    if twice is not None:
        raise UsageError(f"task id {twice!r} is given twice", where=str(path))
    return TaskSet(tasks, str(path), hashlib.sha256(text.encode()).hexdigest())


def _task(line: str, where: str, number: int) -> Task:
    fix = '{"prompt": "2 + 3 =", "answer": "5", "match": "number"}'
    try:
        fields = Fields.parse(line)
        match: Any = fields.choice("match", MATCHES) if "match" in fields else "exact"
        task = Task(
            Prompt(
                id=fields.text("id", f"task-{number}"),
                category=fields.text("category", "uncategorised"),
                text=fields.text("prompt"),
                max_tokens=fields.optional_count("max_tokens") or _DEFAULT_MAX_TOKENS,
            ),
            fields.text("answer"),
            match,
        )
    except FieldError as error:
        raise UsageError(str(error), where=where, fix=fix) from None
    if not task.prompt.text.strip():
        raise UsageError("'prompt' is empty", where=where, fix=fix)
    _check_answer(task, where)
    return task


def _check_answer(task: Task, where: str) -> None:
    if task.match == "regex":
        try:
            re.compile(task.answer)
        except re.error as error:
            raise UsageError(f"'answer' is no regular expression: {error}", where=where) from None
    if task.match == "number" and _last_number(task.answer) is None:
        raise UsageError(f"'answer' {task.answer!r} holds no number", where=where)


def is_right(task: Task, text: str) -> bool:
    """Whether an answer matches.

    exact: the same text, outer white space aside; contains: the answer is in it; regex: it is found in it; number: its
    last number is the answer's (to one millionth).
    """
    return _MATCHERS[task.match](task.answer, text)


def _same_number(answer: str, text: str) -> bool:
    wanted, found = _last_number(answer), _last_number(text)
    return wanted is not None and found is not None and abs(wanted - found) <= _CLOSE * max(1.0, abs(wanted))


def _last_number(text: str) -> float | None:
    found = _NUMBER.findall(text)
    return float(found[-1].replace(",", "")) if found else None


_MATCHERS: dict[Match, Callable[[str, str], bool]] = {
    "exact": lambda answer, text: text.strip() == answer.strip(),
    "contains": lambda answer, text: answer in text,
    "regex": lambda answer, text: re.search(answer, text) is not None,
    "number": _same_number,
}


def task_section(tasks: Sequence[Task], pairs: Sequence[Pair], significance: float) -> dict[str, Any]:
    """Right answers of each arm, and McNemar's exact test of those that only one arm has right."""
    known = {task.prompt.id: task for task in tasks}
    rows = [
        {
            "id": pair.baseline.prompt_id,
            "load": pair.load,
            BASELINE_ARM: is_right(known[pair.baseline.prompt_id], pair.baseline.text),
            SPECULATIVE: is_right(known[pair.baseline.prompt_id], pair.speculative.text),
        }
        for pair in pairs
    ]
    first = sum(bool(row[BASELINE_ARM]) and not row[SPECULATIVE] for row in rows)
    second = sum(bool(row[SPECULATIVE]) and not row[BASELINE_ARM] for row in rows)
    p = mcnemar(first, second)
    return {
        "tasks": len(rows),
        "right": {arm: sum(bool(row[arm]) for row in rows) for arm in (BASELINE_ARM, SPECULATIVE)},
        "only_baseline": first,
        "only_speculative": second,
        "p": p,
        "significance": significance,
        "rejected": p <= significance,
        "differing": [row for row in rows if row[BASELINE_ARM] != row[SPECULATIVE]],
    }
