"""The metrics of one arm: each a pure function of records with its formula.

Notation: a request should have been sent at `t0`; visible text arrived at `c1 … cm` with `k1 … km` tokens. Requests
that failed, were cancelled or lie outside the window are left out by the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trtspec.loadtest.distribution import describe
from trtspec.loadtest.records import Record
from trtspec.loadtest.timeline import Timeline, timeline

__all__ = ["METRICS", "Metric", "metric_rows", "request_latency", "time_per_output_token", "time_to_first_token"]

_NS = 1e-9


def time_to_first_token(line: Timeline) -> list[float]:
    """Seconds until the first text that is not empty. **Formula:** c1 - t0."""
    return [(line.first_ns - line.origin_ns) * _NS]


def time_per_output_token(line: Timeline) -> list[float]:
    """Seconds per token after the first text. **Formula:** (cm - c1) / (k2 + … + km).

    The first text's tokens are left out of the divisor, however many they are: dividing by n - 1 makes a stream whose
    first chunk holds several tokens look faster than it is. No value when all tokens came with the first text.
    """
    tokens = line.tokens_after_first
    return [(line.last_ns - line.first_ns) * _NS / tokens] if tokens else []


def inter_chunk_latency(line: Timeline) -> list[float]:
    """Seconds between neighbouring texts, one value a gap. **Formula:** c[i] - c[i-1].

    Not a time per token: with speculation a chunk holds a whole round.
    """
    return [gap * _NS for gap in line.gaps_ns]


def tokens_per_chunk(line: Timeline) -> list[float]:
    """Tokens that arrived together, one value a text. **Formula:** k[i]."""
    return [float(arrival.tokens) for arrival in line.arrivals if arrival.tokens is not None]


def max_stall(line: Timeline) -> list[float]:
    """Longest wait between two texts of a request, in seconds. **Formula:** max(c[i] - c[i-1])."""
    gaps = line.gaps_ns
    return [max(gaps) * _NS] if gaps else []


def request_latency(line: Timeline) -> list[float]:
    """Seconds until the last text; the closing message after it does not count. **Formula:** cm - t0."""
    return [(line.last_ns - line.origin_ns) * _NS]


def output_tokens_per_second(line: Timeline) -> list[float]:
    """Tokens per second that one user sees, waiting included. **Formula:** (k1 + … + km) / (cm - t0)."""
    elapsed = (line.last_ns - line.origin_ns) * _NS
    return [line.tokens / elapsed] if line.tokens and elapsed > 0 else []


@dataclass(frozen=True)
class Metric:
    """A metric's name, values per request, unit, direction, and why it may be absent."""

    name: str
    values: Callable[[Timeline], list[float]]
    unit: str
    absent: str
    higher_is_better: bool = False
    streaming: bool = False

    @property
    def formula(self) -> str:
        """The formula in the function's docstring."""
        return (self.values.__doc__ or "").partition("**Formula:** ")[2].partition("\n")[0].rstrip(".")


_NO_TEXT = "no request produced text"
_COUNTS = "the server reports no token counts per chunk, or every answer came in one chunk"

METRICS = (
    Metric("time_to_first_token", time_to_first_token, "s", _NO_TEXT, streaming=True),
    Metric("time_per_output_token", time_per_output_token, "s", _COUNTS, streaming=True),
    Metric("inter_chunk_latency", inter_chunk_latency, "s", "no answer came in more than one chunk", streaming=True),
    Metric("tokens_per_chunk", tokens_per_chunk, "tokens", "the server reports no token counts", streaming=True),
    Metric("max_stall", max_stall, "s", "no answer came in more than one chunk", streaming=True),
    Metric("request_latency", request_latency, "s", _NO_TEXT),
    Metric(
        "output_tokens_per_second",
        output_tokens_per_second,
        "tokens/s",
        "the server reports no token counts",
        higher_is_better=True,
    ),
)


def metric_rows(records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    """Name → distribution of every metric over `records`, pooled."""
    lines = [line for line in map(timeline, records) if line is not None]
    rows = {}
    for metric in METRICS:
        values = [value for line in lines for value in metric.values(line)]
        rows[metric.name] = describe(
            values, metric.unit, higher_is_better=metric.higher_is_better, absent=metric.absent
        )
    return rows
