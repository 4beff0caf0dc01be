"""Replaying recorded traffic: when requests came, how long they and their answers were, what prefixes they shared.

Two forms, one request a line (JSONL; the second also as CSV with a header):

* Mooncake's: `timestamp` in milliseconds, `input_length`, `output_length` in tokens, `hash_ids` naming the blocks of
  512 tokens that the prompt is made of (kvcache-ai/Mooncake, FAST25-release/traces; also AIPerf's mooncake_trace)
* Azure's: `TIMESTAMP` as a date, `ContextTokens`, `GeneratedTokens` (Azure/AzurePublicDataset, AzureLLMInferenceTrace)

A line may carry its own `prompt` instead of a length.
"""

from __future__ import annotations

import csv
import io
import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from trtspec.errors import UsageError
from trtspec.loadtest.prompts import Prompt
from trtspec.loadtest.tokens import TextTokens

__all__ = ["Trace", "TraceRow", "load_trace", "trace_prompts"]

_HASH_TOKENS = 512
_WORDS = 400
_DEFAULT_OUTPUT = 128
_MOST_TOKENS = 1 << 24
# milliseconds; the year 5138 since 1970
_LATEST = 1e14
_FIX = "JSONL with timestamp (ms), input_length, output_length, or TIMESTAMP, ContextTokens, GeneratedTokens"
# other writers' names for the same (dynamo's reader takes them too)
_INPUT = ("input_length", "input_tokens", "ContextTokens")
_OUTPUT = ("output_length", "output_tokens", "GeneratedTokens")


@dataclass(frozen=True)
class TraceRow:
    """One request: seconds since the trace's first, lengths in tokens (None: not told), shared blocks, its own text."""

    at: float
    input_length: int | None = None
    output_length: int | None = None
    hash_ids: tuple[int, ...] = ()
    prompt: str | None = None


@dataclass(frozen=True)
class Trace:
    """The requests of a trace in order of time."""

    rows: tuple[TraceRow, ...]

    @property
    def times(self) -> tuple[float, ...]:
        """Seconds since its first request."""
        return tuple(row.at for row in self.rows)


def load_trace(path: Path) -> Trace:
    """The trace in a file; UsageError names file and line of a mistake."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else f"cannot be read: {error}"
        raise UsageError(f"trace: {reason}", where=str(path), fix=f"--trace FILE: {_FIX}") from None
    rows = [_row_at(data, f"{path}:{number}") for number, data in _objects(text, path)]
    if not rows:
        raise UsageError("trace: no requests in it", where=str(path), fix=_FIX)
    first = min(row.at for row in rows)
    ordered = sorted(rows, key=lambda row: row.at)
    return Trace(tuple(TraceRow(row.at - first, *_rest(row)) for row in ordered))


def _rest(row: TraceRow) -> tuple[int | None, int | None, tuple[int, ...], str | None]:
    return row.input_length, row.output_length, row.hash_ids, row.prompt


def _objects(text: str, path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    # not splitlines: a prompt may hold what Python takes for an end of line elsewhere
    lines = text.split("\n")
    if not text.lstrip().startswith("{"):
        yield from _csv_rows(text, path)
        return
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"trace: not valid JSON: {error}", where=f"{path}:{number}", fix=_FIX) from None
        if not isinstance(data, dict):
            raise UsageError("trace: a JSON object is expected", where=f"{path}:{number}", fix=_FIX)
        yield number, data


def _csv_rows(text: str, path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text))
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise UsageError(f"trace: not valid CSV: {error}", where=f"{path}:{reader.line_num}", fix=_FIX) from None


def _row_at(data: Mapping[str, Any], where: str) -> TraceRow:
    try:
        return _row(data)
    except ValueError as error:
        raise UsageError(f"trace: {error}", where=where, fix=_FIX) from None


def _row(data: Mapping[str, Any]) -> TraceRow:
    prompt, hashes = data.get("prompt") or data.get("text_input"), data.get("hash_ids") or ()
    if prompt is not None and not isinstance(prompt, str):
        raise ValueError("'prompt' must be a string")
    if prompt is not None and any("\ud800" <= char <= "\udfff" for char in prompt):
        raise ValueError("'prompt' must be valid Unicode text")
    if not isinstance(hashes, (list, tuple)) or not all(isinstance(item, int) for item in hashes):
        raise ValueError("'hash_ids' must be a list of whole numbers")
    return TraceRow(_seconds(data), _count(data, _INPUT), _count(data, _OUTPUT), tuple(hashes), prompt)


def _seconds(data: Mapping[str, Any]) -> float:
    value = data.get("timestamp", data.get("created_time"))
    if value is not None:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        # also false for NaN
        if not number or not -_LATEST <= value <= _LATEST:
            raise ValueError("'timestamp' must be a number of milliseconds")
        return float(value) / 1000
    date = data.get("TIMESTAMP")
    if date is None:
        raise ValueError("neither 'timestamp' nor 'TIMESTAMP' is there")
    # Azure writes seven digits of a second, of which Python reads six
    head, dot, fraction = str(date).strip().partition(".")
    try:
        return datetime.fromisoformat(f"{head}{dot}{fraction[:6]}").timestamp()
    except ValueError:
        raise ValueError(f"'TIMESTAMP' is no date: {str(date)[:40]!r}") from None


def _count(data: Mapping[str, Any], names: Sequence[str]) -> int | None:
    name = next((name for name in names if data.get(name) is not None and data[name] != ""), None)
    if name is None:
        return None
    try:
        number = float(data[name])
    except (OverflowError, TypeError, ValueError):
        number = math.nan
    if not number.is_integer() or not 0 <= number <= _MOST_TOKENS:
        raise ValueError(f"{name!r} must be a number of tokens")
    return int(number)


def trace_prompts(
    trace: Trace, prompts: Sequence[Prompt], tokens: TextTokens | None, seed: int
) -> tuple[tuple[Prompt, ...], bool]:
    """What the trace's requests ask, in order, and whether any of it is made up (then acceptance says nothing).

    Its own text where it has one; else a text of its length made from the words of `prompts`, blocks with the same
    hash being the same text; without a tokenizer, or without a length, `prompts` themselves with the trace's output
    lengths.
    """
    words = [word for prompt in prompts for word in prompt.text.split()]
    made, synthetic = [], False
    for index, row in enumerate(trace.rows):
        text = row.prompt
        if text is None and row.input_length and tokens is not None:
            text, synthetic = _text(row, index, _Words(words, tokens, seed)), True
        own = prompts[index % len(prompts)]
        usual = own.max_tokens if text is None else _DEFAULT_OUTPUT
        limit = usual if row.output_length is None else max(1, row.output_length)
        category = own.category if text is None else "trace"
        made.append(Prompt(f"trace-{index + 1}", category, own.text if text is None else text, limit))
    return tuple(made), synthetic


@dataclass(frozen=True)
class _Words:
    words: Sequence[str]
    tokens: TextTokens
    seed: int

    def text(self, key: str, count: int) -> str:
        """`count` tokens of words chosen by `key`."""
        rng = random.Random(f"{self.seed}/{key}")  # noqa: S311 - reproducible words, no secret
        return self.tokens.made_of(rng.choices(self.words, k=min(count, _WORDS)), count)


def _text(row: TraceRow, index: int, words: _Words) -> str:
    wanted = row.input_length or 0
    shared = [words.text(f"block {block}", _HASH_TOKENS) for block in row.hash_ids[: wanted // _HASH_TOKENS]]
    rest = wanted - _HASH_TOKENS * len(shared)
    return " ".join([*shared, words.text(f"request {index}", rest)] if rest > 0 else shared)
