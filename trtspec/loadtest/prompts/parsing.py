"""From the text of a prompt file to its prompts, with every mistake named by its line."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from trtspec.errors import UsageError
from trtspec.loadtest.fields import FieldError, Fields
from trtspec.loadtest.prompts.documents import json_pieces, looks_like_json, text_pieces
from trtspec.loadtest.prompts.prompt import DEFAULT_MAX_TOKENS, Prompt, PromptSet
from trtspec.loadtest.prompts.rows import UNCATEGORISED, Row, read_row

__all__ = ["parse"]

_FIX = "the forms that are read: docs/prompts.md"


def parse(text: str, where: str, source: str, *, plain: bool = False) -> PromptSet:
    """The prompts in `text`, which came from `where`; `plain`: never take it for JSON.

    UsageError with the first mistake and its line, for a file without prompts, and for an id that is given twice.
    """
    if plain or not looks_like_json(text):
        form, pieces = text_pieces(text)
        prompts = [Prompt(f"line-{line}", UNCATEGORISED, block, DEFAULT_MAX_TOKENS) for line, block in pieces]
    else:
        rows, empty = _rows(text, where)
        form, prompts = _together(rows, where)
        form += f" ({empty} without a question left out)" if empty else ""
    if not prompts:
        raise UsageError("no prompts in it", where=where, fix=_FIX)
    return PromptSet(tuple(prompts), source, hashlib.sha256(text.encode()).hexdigest(), form=form)


def _rows(text: str, where: str) -> tuple[list[Row], int]:
    """The rows that ask something, and how many do not."""
    rows = [(number, _row(piece, number)) for number, piece in json_pieces(text)]
    problems = [f"line {number}: {row}" for number, row in rows if isinstance(row, FieldError)]
    if problems:
        what = "1 prompt" if len(problems) == 1 else f"{len(problems)} prompts"
        raise UsageError(f"{what} cannot be used: {problems[0]}", where=where, fix=_FIX)
    asking = [row for _, row in rows if isinstance(row, Row) and row.prompts]
    return asking, len(rows) - len(asking)


def _row(piece: Fields | FieldError, number: int) -> Row | FieldError:
    try:
        return piece if isinstance(piece, FieldError) else read_row(piece, number)
    except FieldError as error:
        return error


def _together(rows: Sequence[Row], where: str) -> tuple[str, list[Prompt]]:
    """Names of the forms, and all prompts with ids of their own."""
    forms = " and ".join(sorted({row.form for row in rows}))
    named = Counter(prompt.id for row in rows if row.form == "trtspec" and row.named for prompt in row.prompts)
    twice = next((name for name, times in named.items() if times > 1), None)
    if twice is not None:
        raise UsageError(f"prompt id {twice!r} is given twice", where=where)
    return forms, list(_distinct(_numbered(prompt for row in rows for prompt in row.prompts)))


def _numbered(prompts: Iterator[Prompt]) -> Iterator[Prompt]:
    """Turns that carry no number get that of their place in their session."""
    seen: Counter[str] = Counter()
    for prompt in prompts:
        if prompt.session is None or prompt.turn is not None:
            yield prompt
            continue
        yield replace(prompt, turn=seen[prompt.session])
        seen[prompt.session] += 1


def _distinct(prompts: Iterator[Prompt]) -> Iterator[Prompt]:
    """Ids, and names of sessions, that other files use twice get a number; their turns stay together."""
    ids: Counter[str] = Counter()
    sessions: dict[str, set[int]] = defaultdict(set)
    rounds: Counter[str] = Counter()
    for prompt in prompts:
        ids[prompt.id] += 1
        again = "" if ids[prompt.id] == 1 else f"#{ids[prompt.id]}"
        session = prompt.session
        if session is not None and prompt.turn is not None:
            if prompt.turn in sessions[session]:
                sessions[session], rounds[session] = set(), rounds[session] + 1
            sessions[session].add(prompt.turn)
            session += f"#{rounds[session] + 1}" if rounds[session] else ""
        yield replace(prompt, id=f"{prompt.id}{again}", session=session)
