"""The pieces of a prompt file with their line numbers: JSON objects, or pieces of plain text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from trtspec.files import json_lines
from trtspec.loadtest.fields import FieldError, Fields

__all__ = ["Piece", "json_pieces", "looks_like_json", "text_pieces"]

# line number (from 1) and the object, or what is wrong with it
Piece = tuple[int, Fields | FieldError]

_RULE = re.compile(r"\s*-{3,}\s*")
_SPACE = re.compile(r"[ \t\r\n]*")


def looks_like_json(text: str) -> bool:
    """True for a file that begins as a JSON object or a list of them does."""
    return re.match(r"\s*(\{|\[\s*(\{|\]))", text) is not None


def json_pieces(text: str) -> Iterator[Piece]:
    """The objects of a JSONL file, of a JSON list, or of the list `data` in one JSON object (AIPerf's inputs.json)."""
    if text.lstrip().startswith("["):
        yield from _listed(text, text.index("[") + 1)
        return
    whole = _inputs(text)
    if whole is not None:
        yield from whole
        return
    for number, line in enumerate(json_lines(text), start=1):
        if line.strip():
            try:
                yield number, Fields.parse(line)
            except FieldError as error:
                yield number, error


def _inputs(text: str) -> list[Piece] | None:
    """The pieces of one object that is the whole file and lists its requests as `data`; None for all other files."""
    first = text.lstrip().partition("\n")[0]
    if _is_object(first) and '"data"' not in first:
        return None
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(whole, dict) or not isinstance(whole.get("data"), list):
        return None
    return list(_listed(text, text.index("[", text.index('"data"')) + 1))


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _listed(text: str, position: int) -> Iterator[Piece]:
    """The elements of a JSON list whose first begins behind `position`."""
    decoder = json.JSONDecoder()
    line, counted = 1, 0
    while True:
        position = _skipped(text, position)
        if text[position : position + 1] == "]":
            return
        line, counted = line + text.count("\n", counted, position), position
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            yield line, FieldError(f"not valid JSON: {error}")
            return
        yield line, _object(value)
        position = _skipped(text, position)
        if text[position : position + 1] not in {",", "]"}:
            yield line, FieldError("not valid JSON: the list does not end")
            return
        position += text[position] == ","


def _object(value: Any) -> Fields | FieldError:
    return Fields(value) if isinstance(value, dict) else FieldError("a JSON object is expected")


def _skipped(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


def text_pieces(text: str) -> tuple[str, list[tuple[int, str]]]:
    """Name of the form and (line number, prompt): parts between lines of ---, else paragraphs, else lines.

    Where neither a rule nor an empty line stands between two lines, every line is a prompt.
    """
    lines = [line.rstrip("\r") for line in text.split("\n")]
    if any(map(_RULE.fullmatch, lines)):
        return "plain text between ---", _blocks(lines, lambda line: _RULE.fullmatch(line) is not None)
    if "" in map(str.strip, text.strip().split("\n")):
        return "plain text in paragraphs", _blocks(lines, lambda line: not line.strip())
    return "plain text, a prompt a line", _blocks(lines, None)


def _blocks(lines: list[str], separates: Any) -> list[tuple[int, str]]:
    blocks: list[tuple[int, list[str]]] = []
    fresh = True
    for number, line in enumerate(lines, start=1):
        if separates is not None and separates(line):
            fresh = True
        elif fresh:
            if line.strip():  # a prompt does not begin with empty lines
                blocks.append((number, [line]))
                fresh = separates is None
        else:
            blocks[-1][1].append(line)
    return [(number, "\n".join(block).strip()) for number, block in blocks]
