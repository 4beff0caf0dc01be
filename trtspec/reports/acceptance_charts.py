"""Acceptance by draft position, tokens per round, and acceptance against speed-up of single prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trtspec.reports.charts import (
    Chart,
    Figure,
    absent,
    axis,
    figure,
    level_control,
    safe,
    share_axis,
    short,
    unity,
)
from trtspec.reports.correlation import correlation_text
from trtspec.reports.data import ReportData
from trtspec.reports.formats import Table, percent_text, ratio_text, text_cell
from trtspec.reports.rows import pair_acceptance, pair_speedups

__all__ = ["NO_COUNTERS", "position_chart", "rounds_chart", "scatter_chart"]

NO_COUNTERS = "The server sent no counters of drafted and accepted tokens, so acceptance is unknown, not zero."
# marks of one load level: more hide one another; rows of the table behind them
_MARKS = 1000
_LISTED = 1000
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down")


def position_chart(data: ReportData) -> Chart:
    """Share of tokens accepted at each position of the draft."""
    title = "Acceptance by draft position"
    shares = [share for share in data.acceptance.get("per_position") or () if share is not None]
    if not shares:
        return absent("position", title, NO_COUNTERS)
    positions = list(range(1, len(shares) + 1))
    trace = _bars([str(p) for p in positions], [100 * share for share in shares])
    trace["hovertext"] = [f"position {p}: {percent_text(s)} accepted" for p, s in zip(positions, shares, strict=True)]
    chart = figure(
        [trace], 300, xaxis=axis("position in the draft", type="category"),
        yaxis=share_axis("accepted", range=[0, 110]), bargap=0.35,
    )  # fmt: skip
    rows = tuple((text_cell(p), text_cell(percent_text(s))) for p, s in zip(positions, shares, strict=True))
    caption = (
        "Share of rounds whose token at this position was accepted; a token counts only if all before it were. "
        "Where the bars get short, a longer draft buys nothing."
    )
    return Chart("position", title, caption, {"": chart}, table=Table(("Position", "Accepted"), rows), height=300)


def rounds_chart(data: ReportData) -> Chart:
    """How many tokens a round yields: the histogram of accepted tokens, plus the target's own."""
    title = "Tokens per round"
    histogram = [int(count) for count in data.acceptance.get("acceptance_histogram") or ()]
    total = sum(histogram)
    if not total:
        return absent("rounds", title, NO_COUNTERS)
    yields = [str(accepted + 1) for accepted in range(len(histogram))]
    trace = _bars(yields, [100 * count / total for count in histogram])
    trace["hovertext"] = [
        f"{tokens} tokens ({accepted} accepted): {count} of {total} rounds"
        for accepted, (tokens, count) in enumerate(zip(yields, histogram, strict=True))
    ]
    top = max(100 * count / total for count in histogram)
    chart = figure(
        [trace], 300, xaxis=axis("tokens from one round", type="category"),
        yaxis=axis("rounds", range=[0, top * 1.15], ticksuffix=" %"), bargap=0.35,
    )  # fmt: skip
    rows = tuple(
        (text_cell(tokens), text_cell(count), text_cell(percent_text(count / total)))
        for tokens, count in zip(yields, histogram, strict=True)
    )
    caption = (
        "What a round (one draft, one pass of the target) yields, the target's own token included. "
        "Plain decoding is always 1."
    )
    return Chart(
        "rounds", title, caption, {"": chart}, table=Table(("Tokens", "Rounds", "Share"), rows), height=300
    )  # fmt: skip


def _bars(names: Sequence[str], heights: Sequence[float]) -> dict[str, Any]:
    return {
        "type": "bar", "x": list(names), "y": list(heights), "hoverinfo": "text",
        "marker": {"color": "@speculative", "cornerradius": 3},
        "text": [percent_text(height / 100) for height in heights],
        "textposition": "outside", "cliponaxis": False, "textfont": {"color": "@ink", "size": 12},
    }  # fmt: skip


def scatter_chart(data: ReportData) -> Chart:
    """Each prompt's acceptance against its own speed-up, one variant a load level."""
    title = "Does acceptance explain the speed-up?"
    points = _points_of(data)
    if not points:
        reason = NO_COUNTERS if len(data.pairs) else "No prompt was answered by both arms."
        return absent("scatter", title, reason)
    names = sorted({point.category for point in points})
    marks = {name: _SYMBOLS[index % len(_SYMBOLS)] for index, name in enumerate(names)}
    levels = [level for level in data.levels if any(point.load == level.label for point in points)]
    variants = {level.label: _scatter(_drawn(points, level.label), marks) for level in levels}
    caption = (
        "One mark a prompt. Marks that fall off the trend are prompts whose speed-up has another cause: length, load, "
        "noise."
    )
    drawn = Counter(point.load for point in points)
    thinned = [f"Of a load with more pairs, {_MARKS} are drawn."] if max(drawn.values()) == _MARKS else []
    text = " ".join([caption, *thinned, *correlation_text(data)])
    return Chart(
        "scatter", title, text, variants, (level_control(levels),), _scatter_table(points), height=400, wide=True
    )


@dataclass(frozen=True)
class _Point:
    """A pair with a known acceptance and a known speed-up."""

    prompt: str
    category: str
    load: str
    accepted: int
    drafted: int
    speedup: float

    @property
    def acceptance(self) -> float:
        """Accepted share of the drafted tokens."""
        return self.accepted / self.drafted


def _points_of(data: ReportData) -> list[_Point]:
    """The pairs that can be drawn; of very many, evenly spread ones."""
    import numpy as np

    pairs, table = data.pairs, data.table
    acceptance, speedup = pair_acceptance(pairs), pair_speedups(pairs)
    chosen: list[int] = []
    for code in np.unique(pairs.load).tolist():
        known = np.flatnonzero(~np.isnan(acceptance) & ~np.isnan(speedup) & (pairs.load == code))
        chosen += known[np.unique(np.linspace(0, len(known) - 1, _MARKS).astype(int))].tolist() if len(known) else []
    rows = pairs.speculative[chosen].tolist()
    return [
        _Point(
            str(table.name(int(table.prompt[row]))), str(table.name(int(table.category[row]))),
            str(table.name(int(table.load[row]))), int(table.accepted[row]), int(table.drafted[row]),
            float(speedup[pair]),
        )
        for pair, row in zip(chosen, rows, strict=True)
    ]  # fmt: skip


def _drawn(points: Sequence[_Point], load: str) -> list[_Point]:
    return [point for point in points if point.load == load]


def _scatter(points: Sequence[_Point], marks: Mapping[str, str]) -> Figure:
    traces = []
    for category, symbol in marks.items():
        members = [point for point in points if point.category == category]
        traces.append({
            "type": "scatter", "mode": "markers", "name": safe(short(category)),
            "x": [round(100 * point.acceptance, 2) for point in members],
            "y": [round(point.speedup, 4) for point in members],
            "marker": {
                "symbol": symbol, "size": 10 if len(points) < 300 else 7, "color": "@speculative", "opacity": 0.78,
                "line": {"color": "@card", "width": 1},
            },
            "hovertext": [_hover(point) for point in members], "hoverinfo": "text",
        })  # fmt: skip
    return figure(
        traces, 400, showlegend=len(marks) <= 2 * len(_SYMBOLS), shapes=[unity("y")], hovermode="closest",
        xaxis=axis("acceptance rate of the prompt", ticksuffix=" %", rangemode="tozero"),
        yaxis=axis("speed-up of the prompt", tickformat=".2~f"),
    )  # fmt: skip


def _hover(point: _Point) -> str:
    counts = f"{point.accepted} of {point.drafted} drafted tokens accepted"
    head = f"<b>{safe(point.prompt)}</b> · {safe(point.category)}"
    return f"{head}<br>{counts}<br>speed-up {ratio_text(point.speedup)}"


def _scatter_table(points: Sequence[_Point]) -> Table:
    ordered = sorted(points, key=lambda point: (point.load, -point.acceptance, point.prompt))[:_LISTED]
    rows = tuple(
        (
            text_cell(point.prompt), text_cell(point.category), text_cell(point.load),
            text_cell(percent_text(point.acceptance)), text_cell(ratio_text(point.speedup)),
        )
        for point in ordered
    )  # fmt: skip
    return Table(("Prompt", "Category", "Load", "Acceptance", "Speed-up"), rows, frozenset({1, 2}))
