"""Hand-made records and runs against scripted servers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trtspec.loadtest.records import ChunkRecord, Record
from trtspec.wire.messages import Counters

__all__ = ["MS", "counters", "line", "make_pairs_of_records", "record", "write_lines"]

MS = 1_000_000


def record(
    chunks: Sequence[tuple[float, int | None] | tuple[float, int | None, str]] = ((10, 1),),
    *,
    arm: Any = "baseline",
    prompt: str = "p",
    start_ms: float = 0,
    **fields: Any,
) -> Record:
    """A record whose chunks are (ms after the start, tokens[, text])."""
    start = round(start_ms * MS)
    made = tuple(
        ChunkRecord(start + round(chunk[0] * MS), chunk[2] if len(chunk) > 2 else "x", chunk[1]) for chunk in chunks
    )
    end = made[-1].t_ns if made else start
    values = {"scheduled_ns": start, "end_ns": end, "marked": True, **fields}
    return Record(arm=arm, prompt_id=prompt, start_ns=start, chunks=made, **values)


def make_pairs_of_records(
    count: int,
    *,
    baseline_ms: float = 20.0,
    speculative_ms: float = 10.0,
    tokens: int = 11,
    concurrency: int = 1,
    category: str = "code",
    spread: float = 0.2,
) -> list[Record]:
    """`count` prompts in both arms, one chunk a token; prompts differ by up to `spread` in both arms alike."""
    records = []
    clock = 0.0
    for index in range(count):
        factor = 1 + spread * ((index * 7) % count) / count
        for arm, per_token in (("baseline", baseline_ms), ("speculative", speculative_ms)):
            # what pairs do not share: a little noise
            step = per_token * factor * (1 + 0.01 * ((index * 3 + len(arm)) % 5))
            chunks = [(step * (i + 1), 1, f"{i} ") for i in range(tokens)]
            records.append(
                record(
                    chunks,
                    arm=arm,
                    prompt=f"p{index}",
                    start_ms=clock,
                    category=category,
                    concurrency=concurrency,
                    pair_id=f"p{index}",
                )
            )
            clock += step * (tokens + 1)
    return records


def counters(
    histogram: Sequence[int], drafted: int, output: int | None = None, lookups: tuple[int, ...] = ()
) -> Counters:
    """Consistent counters for an acceptance histogram; `lookups`: rounds, drafted and accepted of the text."""
    steps = sum(histogram)
    accepted = sum(index * count for index, count in enumerate(histogram))
    return Counters(7, output or steps + accepted, steps, drafted, accepted, tuple(histogram), *lookups)


def line(**overrides: Any) -> str:
    """One JSON line as design section 10 has it."""
    data: dict[str, Any] = {
        "arm": "baseline",
        "prompt_id": "code-01",
        "category": "code",
        "concurrency": 1,
        "scheduled_ns": 0,
        "start_ns": 0,
        "end_ns": 300 * MS,
        "chunks": [{"t_ns": 100 * MS, "text": "a", "tokens": 1}, {"t_ns": 300 * MS, "text": "b", "tokens": 1}],
        "error": None,
        "cancelled": False,
        "server": None,
    }
    data.update(overrides)
    return json.dumps({key: value for key, value in data.items() if value is not ...})


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{text}\n" for text in lines), encoding="utf-8")
    return path
