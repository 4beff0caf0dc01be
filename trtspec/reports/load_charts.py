"""Throughput and speed-up against the number of concurrent requests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from trtspec.reports.charts import ARM_STYLE, Chart, Figure, absent, axis, figure, level_axis, unity
from trtspec.reports.data import ReportData
from trtspec.reports.formats import Table, number_text, ratio_text, text_cell
from trtspec.reports.names import metric_name
from trtspec.reports.reading import Interval

__all__ = ["break_even", "levels_chart", "throughput_chart"]

_ONE_LEVEL = "Measured at one concurrency only; more levels show where speculation stops paying."


def break_even(data: ReportData) -> float | None:
    """The break-even concurrency of the summary, None when the speed-up does not cross 1 within the levels."""
    value = data.comparison.get("break_even_concurrency")
    return float(value) if isinstance(value, (int, float)) else None


def throughput_chart(data: ReportData) -> Chart:
    """Output tokens per second of both arms at each level, with the break-even marked."""
    title = "Throughput against concurrency"
    curves = {arm: [(level, part.throughput(arm)) for level, part in data.by_level.items()] for arm in data.arms}
    known = {arm: [(level, value) for level, value in curve if value is not None] for arm, curve in curves.items()}
    levels = sorted({level for curve in known.values() for level, _ in curve})
    if not levels:
        reason = "The server reports no token counts, so throughput in tokens is unknown."
        succeeded = any(request.ok for request in data.requests)
        return absent("throughput", title, reason if succeeded else "No request succeeded.")
    traces = [_curve(arm, curve) for arm, curve in known.items() if curve]
    shown = figure(
        traces, 340, showlegend=True, hovermode="x unified", xaxis=level_axis(levels),
        yaxis=axis("output tokens per second", rangemode="tozero"), **_break_even_mark(data, levels),
    )  # fmt: skip
    caption = "All tokens of all concurrent requests together. Higher is better."
    table = _throughput_table(data, levels)
    return Chart("throughput", title, _with_note(caption, levels), {"": shown}, table=table)


def _with_note(caption: str, levels: Sequence[int]) -> str:
    return f"{caption} {_ONE_LEVEL}" if len(levels) == 1 else caption


def _curve(arm: str, curve: Sequence[tuple[int, float]]) -> dict[str, Any]:
    style = ARM_STYLE[arm]
    return {
        "type": "scatter", "mode": "lines+markers", "name": arm,
        "x": [level for level, _ in curve], "y": [value for _, value in curve],
        "line": {"color": style["color"], "width": 2.5, "dash": style["dash"]},
        "marker": {"symbol": style["symbol"], "size": 9, "color": style["color"]},
        "hovertemplate": "%{y:.4~g} tokens/s",
    }  # fmt: skip


def _break_even_mark(data: ReportData, levels: Sequence[int]) -> Figure:
    value = break_even(data)
    if value is None or not min(levels) <= value <= max(levels):
        return {}
    line = {"color": "@ink", "width": 1.5, "dash": "dot"}
    shape = {"type": "line", "x0": value, "x1": value, "yref": "y domain", "y0": 0, "y1": 1, "line": line}
    at = math.log10(value) if "type" in level_axis(levels) else value
    note = {
        "x": at, "xanchor": "left", "xshift": 5, "yref": "paper", "y": 0.02, "yanchor": "bottom", "showarrow": False,
        "text": f"break-even {number_text(value)}", "font": {"size": 12, "color": "@ink"},
    }  # fmt: skip
    return {"shapes": [shape], "annotations": [note]}


def _throughput_table(data: ReportData, levels: Sequence[int]) -> Table:
    rows = []
    for level in levels:
        values = (data.by_level[level].throughput(arm) for arm in data.arms)
        rows.append((text_cell(level), *(text_cell("–" if value is None else number_text(value)) for value in values)))
    return Table(("Concurrency", *(f"{arm}, tokens/s" for arm in data.arms)), tuple(rows))


def levels_chart(data: ReportData) -> Chart:
    """Speed-up at each level with its interval as a band, and a line at 1."""
    title = "Speed-up against concurrency"
    found = [(level, part.speedup(data.headline)) for level, part in data.by_level.items()]
    known = [(level, interval) for level, interval in found if interval is not None]
    if not known:
        return absent("levels", title, "No prompt was answered by both arms, so there is no speed-up to show.")
    levels = [level for level, _ in known]
    if len(levels) == 1:
        return absent("levels", title, f"{known[0][1].text} at concurrency {levels[0]}. {_ONE_LEVEL}")
    traces = [*_band(known), _line(known)]
    shown = figure(
        traces, 340, shapes=[unity("y")], hovermode="closest", xaxis=level_axis(levels),
        yaxis=axis("speed-up (1 = no difference)", tickformat=".2~f"),
    )  # fmt: skip
    caption = f"Ratio of {metric_name(data.headline).lower()}, baseline to speculative; the band is the interval."
    rows = tuple((text_cell(level), text_cell(ratio_text(i.estimate)), text_cell(i.range_text)) for level, i in known)
    table = Table(("Concurrency", "Speed-up", "Interval"), rows, frozenset({2}))
    return Chart("levels", title, caption, {"": shown}, table=table)


def _line(known: Sequence[tuple[int, Interval]]) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "lines+markers", "cliponaxis": False,
        "x": [level for level, _ in known], "y": [interval.estimate for _, interval in known],
        "line": {"color": "@speculative", "width": 2.5}, "marker": {"size": 10, "color": "@speculative"},
        "hovertext": [f"concurrency {level}<br>{interval.text}" for level, interval in known], "hoverinfo": "text",
        "error_y": {
            "type": "data", "symmetric": False, "color": "@speculative", "thickness": 1.5, "width": 4,
            "array": [i.ends[1] - i.estimate for _, i in known],
            "arrayminus": [i.estimate - i.ends[0] for _, i in known],
        },
    }  # fmt: skip


def _band(known: Sequence[tuple[int, Interval]]) -> list[dict[str, Any]]:
    """The area between low and high, drawn only where there are at least two levels with an interval."""
    ends = [(level, i.low, i.high) for level, i in known if i.low is not None and i.high is not None]
    if len(ends) < 2:
        return []
    edge = {"type": "scatter", "mode": "lines", "line": {"width": 0, "color": "@speculative"}, "hoverinfo": "skip"}
    x = [level for level, _, _ in ends]
    lower = {**edge, "x": x, "y": [low for _, low, _ in ends]}
    upper = {**edge, "x": x, "y": [high for _, _, high in ends], "fill": "tonexty", "fillcolor": "@speculative-band"}
    return [lower, upper]
