"""Where the speed-up comes from: tokens per round, cost of a round, uneven rounds, first token and ending."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trtspec.reports.charts import Chart, Figure, absent, axis, figure, level_control
from trtspec.reports.data import ReportData
from trtspec.reports.formats import Cell, Table, percent_text, ratio_text, text_cell
from trtspec.reports.levels import Level

__all__ = ["origin_chart"]

_FACTORS = {
    "tokens_per_round": "tokens per round",
    "round_cost": "cost of a round",
    "uneven_rounds": "uneven rounds",
    "first_token_and_ending": "first token and ending",
}


def origin_chart(data: ReportData) -> Chart:
    """The factors that multiply to the measured speed-up, as steps."""
    title = "Where the speed-up comes from"
    told: Mapping[str, Any] = (data.comparison.get("predicted") or {}).get("by_load") or {}
    known = {level: told[level.label] for level in data.levels if (told.get(level.label) or {}).get("factors")}
    if not known:
        reason = next((row.get("reason") for row in told.values() if row.get("reason")), None)
        return absent("origin", title, f"Unknown: {reason or 'the run does not tell its rounds'}.")
    variants = {level.label: _steps(row) for level, row in known.items()}
    caption = (
        "Each step multiplies. A round brings several tokens but costs more than a plain step; what is left is the "
        "measured speed-up. The predicted one is the first two steps."
    )
    if any(row.get("source") == "chunks" for row in known.values()):
        caption += " Rounds are taken to be chunks: the server does not count them."
    if any(_told(row) for row in known.values()):
        caption += (
            " By the server's clock a round is drafts, verification and the calls around them, here in steps of the "
            "baseline; what is left is on the way to the client. The ideal speed-up is that of drafts and verification "
            "alone."
        )
    return Chart("origin", title, caption, variants, (level_control(list(known)),), _table(known), height=340)


def _steps(row: Mapping[str, Any]) -> Figure:
    factors = [(name, float(row["factors"][key])) for key, name in _FACTORS.items() if key in row["factors"]]
    ends, at = [], 1.0
    for _, factor in factors:
        ends.append((at, at * factor))
        at *= factor
    names = [*(name for name, _ in factors), "measured"]
    bars = [*ends, (1.0, at)]
    texts = [*(f"× {factor:.2f}" for _, factor in factors), ratio_text(at)]
    return figure(
        [_bars(names, bars, texts)], 340, bargap=0.45, shapes=_joints(ends),
        xaxis=axis("", tickvals=list(range(len(names))), ticktext=[_broken(name) for name in names], showgrid=False),
        yaxis=axis("times the baseline", tickformat=".2~f", range=_range(bars)),
    )  # fmt: skip


def _bars(names: Sequence[str], bars: Sequence[tuple[float, float]], texts: Sequence[str]) -> Figure:
    colors = ["@speculative" if end >= start else "@baseline" for start, end in bars]
    colors[-1] = "@ink"
    return {
        "type": "bar", "x": list(range(len(bars))), "base": [min(bar) for bar in bars],
        "y": [abs(end - start) for start, end in bars], "marker": {"color": colors, "cornerradius": 2},
        "text": list(texts), "textposition": "outside", "cliponaxis": False, "textfont": {"color": "@ink", "size": 13},
        "hovertext": [f"{name}: {text}<br>{end:.2f} times the baseline so far"
                      for name, text, (_, end) in zip(names, texts, bars, strict=True)],
        "hoverinfo": "text",
    }  # fmt: skip


def _range(bars: Sequence[tuple[float, float]]) -> list[float]:
    low, high = min(map(min, bars)), max(map(max, bars))
    return [max(0.0, low - 0.12 * (high - low) - 0.05), high + 0.16 * (high - low) + 0.05]


def _joints(ends: Sequence[tuple[float, float]]) -> list[dict[str, Any]]:
    """Thin lines from each step to the next, and the line at 1."""
    line = {"color": "@muted", "width": 1}
    joints = [
        {"type": "line", "x0": place, "x1": place + 1, "y0": end, "y1": end, "line": line, "layer": "below"}
        for place, (_, end) in enumerate(ends)
    ]
    one = {"type": "line", "xref": "x domain", "x0": 0, "x1": 1, "y0": 1, "y1": 1, "layer": "below"}
    return [*joints, {**one, "line": {"color": "@ink", "width": 1.5, "dash": "dot"}}]


def _broken(name: str) -> str:
    """A tick of two lines."""
    words = name.split()
    middle = (len(words) + 1) // 2
    return "<br>".join(filter(None, (" ".join(words[:middle]), " ".join(words[middle:]))))


def _table(known: Mapping[Level, Mapping[str, Any]]) -> Table:
    columns = ("Load", *(name.capitalize() for name in _FACTORS.values()), "Predicted", "Measured")
    told = any(_told(row) for row in known.values())
    columns += (*_PARTS.values(), "Ideal", "Achieved ÷ ideal") if told else ()
    rows = []
    for level, row in known.items():
        factors = [row["factors"].get(key) for key in _FACTORS]
        values = [*factors, row.get("predicted"), row.get("measured")]
        cells = [Cell("–", reason="not known") if v is None else text_cell(ratio_text(v)) for v in values]
        rows.append((text_cell(level.label), *cells, *(_server_cells(row) if told else ())))
    return Table(columns, tuple(rows))


# parts of a round by the server's clock
_PARTS = {"draft": "Drafts", "target": "Verification", "overhead": "Calls", "transport": "To the client"}


def _told(row: Mapping[str, Any]) -> bool:
    return (row.get("round") or {}).get("ideal") is not None


def _server_cells(row: Mapping[str, Any]) -> list[Cell]:
    """The parts of a round in steps of the baseline, the ideal speed-up, and how much of it is achieved."""
    parts = row.get("round") or {}
    if not _told(row):
        return [Cell("–", reason=parts.get("reason") or "not known")] * (len(_PARTS) + 2)
    achieved = parts["achieved_over_ideal"]
    return [
        *(text_cell(f"{parts[name] / parts['step']:.2f} steps") for name in _PARTS),
        text_cell(ratio_text(parts["ideal"])),
        Cell("–", reason="not known") if achieved is None else text_cell(percent_text(achieved)),
    ]
