"""Numbers of a report as people read them, and the cell that carries a number, its key and its absence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = [
    "Cell",
    "DisplayUnit",
    "Table",
    "acceptance_text",
    "display_unit",
    "number_text",
    "percent_text",
    "plain",
    "ratio_text",
    "text_cell",
]


@dataclass(frozen=True)
class Cell:
    """Text for people; with `key` and `raw`, the summary's number behind it; with `reason`, why there is none.

    `tag` is a small word beside the number where it is another statistic than the column says.
    """

    text: str
    key: str = ""
    raw: str = ""
    reason: str = ""
    tag: str = ""


@dataclass(frozen=True)
class Table:
    """A table with a header; `text_columns` are aligned left."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    text_columns: frozenset[int] = field(default_factory=frozenset)


@dataclass(frozen=True)
class DisplayUnit:
    """A unit for people and the factor that leads to it."""

    name: str
    factor: float = 1.0


def display_unit(unit: str, values: Sequence[float | None]) -> DisplayUnit:
    """Milliseconds for seconds below 10 s, else the unit itself."""
    known = [abs(value) for value in values if value is not None]
    if unit in {"s", "seconds"}:
        return DisplayUnit("ms", 1000.0) if not known or max(known) < 10 else DisplayUnit("s")
    return DisplayUnit(unit)


def number_text(value: float) -> str:
    """Three significant digits, no exponent, thin spaces between thousands: `0.0123`, `4.50`, `53.3`, `1 320`."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}".replace(",", " ")
    decimals = 1 if size >= 10 else 2 if size >= 1 else 3 if size >= 0.1 else 4
    return f"{value:.{decimals}f}"


def ratio_text(value: float) -> str:
    """A speed-up, e.g. `1.32×`."""
    return f"{value:.2f}×"


def percent_text(value: float) -> str:
    """A share of one in percent: `61 %`, `0.4 %`."""
    percent = value * 100
    if percent in {0, 100}:
        return f"{percent:.0f} %"
    return f"{percent:.0f} %" if 10 <= percent <= 99 else f"{percent:.1f} %"


def acceptance_text(rate: float | None, length: float | None) -> str:
    """What is known of the acceptance: `61 % of drafted tokens, 3.10 tokens a round`."""
    parts = [] if rate is None else [f"{percent_text(rate)} of drafted tokens"]
    return ", ".join([*parts, *([] if length is None else [f"{length:.2f} tokens a round"])])


def plain(reason: str) -> str:
    """A reason without the words that say again that something is missing."""
    return str(reason).removeprefix("not available: ")


def text_cell(value: object) -> Cell:
    """A cell of plain text."""
    return Cell(str(value))
