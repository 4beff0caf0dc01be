"""The top of the report: the verdict, the headline speed-up, and its interval at every concurrency."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from trtspec.reports.data import ReportData
from trtspec.reports.formats import Cell, ratio_text
from trtspec.reports.names import metric_name
from trtspec.reports.reading import Interval

__all__ = ["Hero", "IntervalRow", "build_hero"]

_CODES = {
    "FASTER": "Faster",
    "SLOWER": "Slower",
    "NO DIFFERENCE": "No difference",
    "INCONCLUSIVE": "Inconclusive",
    "MIXED": "Depends on the load",
}


@dataclass(frozen=True)
class IntervalRow:
    """One speed-up on a common scale: places in percent of the scale's width."""

    label: str
    text: str
    low: float
    width: float
    estimate: float


@dataclass(frozen=True)
class Hero:
    """`numbers` are none (no verdict), one, or that of the lowest and of the highest concurrency."""

    code: str
    verdict: str
    numbers: tuple[Cell, ...]
    label: str
    rows: tuple[IntervalRow, ...]
    one: float


def build_hero(data: ReportData) -> Hero:
    """What a person reads who reads nothing else."""
    name = data.headline
    parts = [(level, part) for level, part in data.by_level.items() if part.estimate(name) is not None]
    known = [(level, interval) for level, part in parts if (interval := part.speedup(name)) is not None]
    rows, one = _rows(known)
    numbers = [replace(part.speedup_cell(name, "estimate"), key=_key(level, name)) for level, part in parts]
    ends = tuple(numbers) if len(numbers) < 2 else (numbers[0], numbers[-1])
    return Hero(
        code=_CODES.get(str(data.comparison.get("verdict_code")), ""),
        verdict=str(data.comparison["verdict"]).replace(" %", "\N{NO-BREAK SPACE}%"),
        numbers=() if data.comparison.get("withheld") else ends,
        label=_label(metric_name(name).lower(), known),
        rows=rows,
        one=one,
    )


def _key(level: int, name: str) -> str:
    return f"comparison.by_concurrency.{level}.speedup.{name}.estimate"


def _label(name: str, known: Sequence[tuple[int, Interval]]) -> str:
    if not known:
        return ""
    if len(known) == 1:
        return f"speed-up in {name}, {known[0][1].range_text}"
    return f"speed-up in {name}, from concurrency {known[0][0]} to {known[-1][0]}"


def _rows(known: Sequence[tuple[int, Interval]]) -> tuple[tuple[IntervalRow, ...], float]:
    """A row a concurrency, and where 1 lies on their scale."""
    if not known:
        return (), 0.0
    ends = [1.0, *(end for _, interval in known for end in interval.ends)]
    pad = max(0.06 * (max(ends) - min(ends)), 0.03)
    start, span = min(ends) - pad, max(ends) - min(ends) + 2 * pad

    def place(value: float) -> float:
        return round(100 * (value - start) / span, 2)

    return tuple(_row(level, interval, place) for level, interval in known), place(1.0)


def _row(level: int, interval: Interval, place: Callable[[float], float]) -> IntervalRow:
    low, high = (place(end) for end in interval.ends)
    bounds = "" if interval.low is None or interval.high is None else f"{interval.low:.2f} to {interval.high:.2f}"
    text = f"{ratio_text(interval.estimate)} ({bounds})" if bounds else ratio_text(interval.estimate)
    return IntervalRow(f"concurrency {level}", text, low, round(high - low, 2), place(interval.estimate))
