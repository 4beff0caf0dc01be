"""What the summary says about acceptance and what goes with it, in words and as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trtspec.reports.data import ReportData
from trtspec.reports.formats import Cell, Table, text_cell

__all__ = ["correlation_table", "correlation_text"]

_NAMES = {
    "acceptance_speedup": "Speed-up",
    "acceptance_prompt_tokens": "Length of the prompt",
    "acceptance_output_tokens": "Length of the answer",
    "acceptance_temperature": "Temperature",
}
# |ρ| from which a correlation has a word
_WORDS = ((0.7, "strongly"), (0.4, "clearly"), (0.2, "weakly"))


def _section(data: ReportData) -> Mapping[str, Any]:
    found = data.comparison.get("correlation")
    return found if isinstance(found, Mapping) else {}


def correlation_text(data: ReportData) -> list[str]:
    """How acceptance and speed-up go together, as a sentence; nothing where the summary does not tell."""
    row = _section(data).get("acceptance_speedup") or {}
    rho, low, high = (row.get(key) for key in ("rho", "low", "high"))
    if rho is None:
        return []
    ends = "" if low is None or high is None else f", 95 % interval {low:.2f} to {high:.2f}"
    word = next((word for limit, word in _WORDS if abs(rho) >= limit), "hardly")
    return [f"Over {row.get('count')} pairs they go together {word} (Spearman's ρ = {rho:.2f}{ends})."]


def correlation_table(data: ReportData) -> Table:
    """Acceptance against everything that it may go with."""
    rows = tuple(_row(label, row) for name, label in _NAMES.items() if (row := _section(data).get(name)) is not None)
    return Table(("Acceptance against", "Spearman's ρ", "Low", "High", "Answers"), rows)


def _row(label: str, row: Mapping[str, Any]) -> tuple[Cell, ...]:
    reason = str(row.get("reason") or "not known")
    ends = (row.get(key) for key in ("rho", "low", "high"))
    shown = (Cell("–", reason=reason) if value is None else text_cell(f"{value:.2f}") for value in ends)
    return (text_cell(label), *shown, text_cell(row.get("count", "–")))
