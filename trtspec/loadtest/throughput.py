"""Tokens and requests per second of an arm as a whole, over the time in which it was under load."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from trtspec.loadtest.records import Record
from trtspec.loadtest.timeline import output_tokens

__all__ = ["Load", "active_intervals", "measure_load"]

Interval = tuple[int, int]


@dataclass(frozen=True)
class Load:
    """What an arm did in its active time: seconds, tokens (None: not counted) and finished requests."""

    seconds: float
    tokens: int | None
    requests: int

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens / active time."""
        return self.tokens / self.seconds if self.tokens is not None and self.seconds > 0 else None

    @property
    def requests_per_second(self) -> float | None:
        """Requests / active time."""
        return self.requests / self.seconds if self.seconds > 0 and self.requests else None


def active_intervals(measured: Sequence[Record]) -> list[Interval]:
    """The union of the measured requests' times: pauses, in which the other arm had its turn, are left out."""
    merged: list[Interval] = []
    for start, end in sorted((record.start_ns, _last_ns(record)) for record in measured):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def measure_load(measured: Sequence[Record], others: Sequence[Record]) -> Load:
    """Load of one arm at one concurrency.

    **Formula:** tokens that arrived in the active time, of measured requests and of those that only kept the load up
    (`others`), divided by that time.
    """
    intervals = active_intervals(measured)
    seconds = sum(end - start for start, end in intervals) * 1e-9
    tokens = _tokens_inside([*measured, *others], intervals)
    return Load(seconds, _answer_tokens(measured) if tokens is None else tokens, len(measured))


def _last_ns(record: Record) -> int:
    return next((chunk.t_ns for chunk in reversed(record.chunks) if chunk.text or chunk.tokens), record.end_ns)


def _answer_tokens(measured: Sequence[Record]) -> int | None:
    """Tokens of whole answers, for servers that count no chunks."""
    counts = [output_tokens(record) for record in measured]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _tokens_inside(records: Sequence[Record], intervals: Sequence[Interval]) -> int | None:
    starts = [start for start, _ in intervals]
    total = 0
    for record in records:
        for chunk in record.chunks:
            index = bisect_right(starts, chunk.t_ns) - 1
            if index < 0 or chunk.t_ns > intervals[index][1]:
                continue
            if chunk.tokens is None and chunk.text:
                return None
            total += chunk.tokens or 0
    return total or None
