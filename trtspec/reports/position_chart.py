"""Acceptance against the place in the answer: does it decay over long answers?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trtspec.reports.charts import Chart, Figure, absent, axis, figure
from trtspec.reports.data import ReportData
from trtspec.reports.formats import Cell, Table, text_cell
from trtspec.reports.reading import interval_of

__all__ = ["output_position_chart"]


def output_position_chart(data: ReportData) -> Chart:
    """Tokens per round by how far the answer has come."""
    title = "Does acceptance decay over long answers?"
    section: Mapping[str, Any] = data.comparison.get("acceptance_by_position") or {}
    bins = [row for row in section.get("bins") or () if row.get("tokens_per_round") is not None]
    if not bins:
        reason = section.get("reason") or "no answer came in several texts with counted tokens"
        return absent("output-position", title, f"Unknown: {reason}.")
    caption = "Tokens that a round brings, by how many tokens the answer had before it. " + _decay(section)
    rows = tuple(_row(row) for row in bins)
    table = Table(("Tokens before", "Tokens per round", "Low", "High", "Answers", "Rounds"), rows)
    return Chart("output-position", title, caption, {"": _curve(bins)}, table=table, height=300)


def _decay(section: Mapping[str, Any]) -> str:
    found = interval_of(section.get("decay"))
    if found is None:
        return ""
    ends = "" if found.low is None or found.high is None else f", 95 % interval {found.low:.2f} to {found.high:.2f}"
    word = "no decay is shown"
    if found.high is not None and found.high < 1:
        word = "it decays"
    elif found.low is not None and found.low > 1:
        word = "it grows"
    return f"Later half of an answer over the earlier half: {found.estimate:.2f}{ends}; {word}."


def _span(row: Mapping[str, Any]) -> str:
    return f"{row['start']}+" if row.get("end") is None else f"{row['start']}–{row['end'] - 1}"


def _curve(bins: Sequence[Mapping[str, Any]]) -> Figure:
    names = [_span(row) for row in bins]
    values = [row["tokens_per_round"] for row in bins]
    ends = [(_or(row.get("low"), v), _or(row.get("high"), v)) for row, v in zip(bins, values, strict=True)]
    line = {
        "type": "scatter", "mode": "lines+markers", "x": names, "y": values, "cliponaxis": False,
        "line": {"color": "@speculative", "width": 2.5}, "marker": {"size": 9, "color": "@speculative"},
        "error_y": {
            "type": "data", "symmetric": False, "color": "@speculative", "thickness": 1.5, "width": 4,
            "array": [high - v for (_, high), v in zip(ends, values, strict=True)],
            "arrayminus": [v - low for (low, _), v in zip(ends, values, strict=True)],
        },
        "hovertext": [f"tokens {name}: {v:.2f} a round<br>{row['rounds']} rounds of {row['requests']} answers"
                      for name, v, row in zip(names, values, bins, strict=True)],
        "hoverinfo": "text",
    }  # fmt: skip
    top = max(high for _, high in ends)
    return figure(
        [line], 300, xaxis=axis("tokens of the answer before the round", type="category"),
        yaxis=axis("tokens per round", range=[0, top * 1.12]),
    )  # fmt: skip


def _or(value: float | None, other: float) -> float:
    return other if value is None else value


def _row(row: Mapping[str, Any]) -> tuple[Cell, ...]:
    ends = [row.get("low"), row.get("high")]
    shown = [Cell("–", reason="too few answers") if end is None else text_cell(f"{end:.2f}") for end in ends]
    counts = (text_cell(row["requests"]), text_cell(row["rounds"]))
    return (text_cell(_span(row)), text_cell(f"{row['tokens_per_round']:.2f}"), *shown, *counts)
