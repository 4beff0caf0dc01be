"""The top of the report: the verdict, the headline speed-up, and its interval at every load level."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trtspec.reports.data import ReportData
from trtspec.reports.formats import Cell, ratio_text
from trtspec.reports.levels import Level
from trtspec.reports.names import metric_name
from trtspec.reports.reading import Interval
from trtspec.units import bounds_text

__all__ = ["Hero", "IntervalRow", "build_hero"]

_CODES = {
    "FASTER": "Faster",
    "SLOWER": "Slower",
    "NO DIFFERENCE": "No difference",
    "INCONCLUSIVE": "Inconclusive",
    "MIXED": "Depends on the load",
    "INCONCLUSIVE (client-bound)": "Inconclusive: client-bound",
    "A/A": "A/A calibration",
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
    """`verdict` is the summary's first sentence, `why` what follows it.

    `numbers` are none (no verdict), one, or that of the first and of the last load level.
    """

    code: str
    verdict: str
    why: str
    numbers: tuple[Cell, ...]
    label: str
    rows: tuple[IntervalRow, ...]
    one: float


def build_hero(data: ReportData) -> Hero:
    """What a person reads who reads nothing else."""
    name = data.headline
    known = [(level, interval) for level in data.levels if (interval := level.part.speedup(name)) is not None]
    rows, one = _rows(known)
    numbers = [level.part.speedup_cell(name, "estimate") for level, _ in known]
    verdict, why = _sentences(str(data.comparison["verdict"]).replace(" %", "\N{NO-BREAK SPACE}%"))
    ends = tuple(numbers) if len(numbers) < 2 else (numbers[0], numbers[-1])
    return Hero(
        code=_CODES.get(str(data.comparison.get("verdict_code")), ""),
        verdict=verdict,
        why=why,
        numbers=() if data.comparison.get("withheld") else ends,
        label=_label(metric_name(name).lower(), known),
        rows=rows,
        one=one,
    )


def _sentences(verdict: str) -> tuple[str, str]:
    """What to do, and why."""
    found = re.match(r"(.*?[.!])\s+(?=[A-Z])(.*)", verdict, re.DOTALL)
    return (found[1], found[2]) if found else (verdict, "")


def _label(name: str, known: Sequence[tuple[Level, Interval]]) -> str:
    if not known:
        return ""
    if len(known) == 1:
        return f"speed-up in {name}, {known[0][1].range_text}"
    first, last = known[0][0], known[-1][0]
    if first.closed and last.closed:
        return f"speed-up in {name}, from {first.label} to {last.short}"
    return f"speed-up in {name}, at {first.label} and at {last.label}"


def _rows(known: Sequence[tuple[Level, Interval]]) -> tuple[tuple[IntervalRow, ...], float]:
    """A row a level, and where 1 lies on their scale."""
    if not known:
        return (), 0.0
    ends = [1.0, *(end for _, interval in known for end in interval.shown_ends)]
    pad = max(0.06 * (max(ends) - min(ends)), 0.03)
    start, span = min(ends) - pad, max(ends) - min(ends) + 2 * pad

    def place(value: float) -> float:
        return round(100 * (value - start) / span, 2)

    return tuple(_row(level, interval, place) for level, interval in known), place(1.0)


def _row(level: Level, interval: Interval, place: Callable[[float], float]) -> IntervalRow:
    low, high = (place(end) for end in interval.shown_ends)
    bounds = "" if interval.low is None or interval.high is None else bounds_text(interval.low, interval.high, " to ")
    text = f"{ratio_text(interval.estimate)} ({bounds})" if bounds else ratio_text(interval.estimate)
    return IntervalRow(level.label, text, low, round(high - low, 2), place(interval.estimate))
