"""The held-out prompts of a distillation as a file of prompts, to be asked in a load test."""

from __future__ import annotations

import json
from collections.abc import Collection
from itertools import islice
from pathlib import Path
from typing import Any

from trtspec.files import write_text
from trtspec.loadtest.fields import FieldError, Fields
from trtspec.loadtest.prompts.rows import read_row
from trtspec.training.sources import Question, Source, question_of

__all__ = ["write_held_out"]


def write_held_out(path: Path, source: Source, places: Collection[int], max_tokens: int) -> int:
    """Write the questions at these places of ``source``, how many that are; without any there is no file.

    A load test reads a conversation in a way of its own (several user turns are asked one after the other): what it
    would not ask as it was measured is left out.
    """
    asked = enumerate(islice(source, max(places, default=-1) + 1))
    lines = [_line(place, question, max_tokens) for place, question in asked if place in places]
    kept = [line for line in lines if line is not None]
    if kept:
        write_text(path, "".join(f"{line}\n" for line in kept))
    return len(kept)


def _line(place: int, question: Question, max_tokens: int) -> str | None:
    """A row of the file; None where it would be read as something else."""
    row = {"id": f"held-out-{place}", "category": question.category, **_asked(question), "max_tokens": max_tokens}
    line = json.dumps(row, ensure_ascii=False)
    try:
        prompts = read_row(Fields.parse(line), place).prompts
    except FieldError:
        return None
    return line if [question_of(prompt).messages for prompt in prompts] == [question.messages] else None


def _asked(question: Question) -> dict[str, Any]:
    if len(question.messages) == 1 and question.messages[0]["role"] == "user":
        return {"prompt": question.messages[0]["content"]}
    return {"messages": list(question.messages)}
