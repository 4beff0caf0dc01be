"""Throughput, latency and speed-up against the load."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trtspec.loadtest.levels import CLOSED
from trtspec.reports.charts import (
    ARM_STYLE,
    Chart,
    Choice,
    Control,
    Figure,
    absent,
    axis,
    figure,
    level_place,
    load_axis,
    unity,
)
from trtspec.reports.data import ReportData
from trtspec.reports.formats import Cell, DisplayUnit, Table, display_unit, number_text, ratio_text, text_cell
from trtspec.reports.levels import Level
from trtspec.reports.names import metric_name
from trtspec.reports.reading import Interval

__all__ = [
    "break_even",
    "break_even_interval",
    "kind_controls",
    "kind_name",
    "kinds_of",
    "latency_load_chart",
    "levels_chart",
    "line_trace",
    "throughput_chart",
    "variants_by_kind",
]

_ONE_LEVEL = "Measured at one load only; more levels show where speculation stops paying."
_LATENCIES = ("time_to_first_token", "time_per_output_token", "request_latency")


def break_even(data: ReportData) -> float | None:
    """The break-even concurrency of the summary, None when the speed-up does not cross 1 within the levels."""
    value = data.comparison.get("break_even_concurrency")
    return float(value) if isinstance(value, (int, float)) else None


def break_even_interval(data: ReportData) -> tuple[float | None, float | None]:
    """Its interval; an end is None where it lies outside what was measured, both where there is none."""
    found = data.comparison.get("break_even_interval") or {}
    ends = (found.get("low"), found.get("high"))
    return tuple(float(end) if isinstance(end, (int, float)) else None for end in ends)  # type: ignore[return-value]


def kinds_of(levels: Sequence[Level]) -> dict[str, list[Level]]:
    """Kind of load → its levels: kinds have different axes."""
    kinds: dict[str, list[Level]] = {}
    for level in levels:
        kinds.setdefault(level.load.kind if level.value is not None else "other", []).append(level)
    return kinds


def kind_name(kind: str) -> str:
    """A kind of load for people: `closed loop`, `poisson arrivals`."""
    return "closed loop" if kind == CLOSED else kind if kind == "other" else f"{kind} arrivals"


def kind_controls(kinds: Sequence[str]) -> tuple[Control, ...]:
    """The choice of the kind of load, where there are several."""
    choices = tuple(Choice(kind, kind_name(kind)) for kind in kinds)
    return (Control("kind", "Load", choices),) if len(choices) > 1 else ()


def variants_by_kind(levels: Sequence[Level], make: Callable[[list[Level]], Figure]) -> dict[str, Figure]:
    """One figure a kind of load, by the value of `kind_controls`."""
    kinds = kinds_of(levels)
    figures = {kind: make(members) for kind, members in kinds.items()}
    return figures if len(figures) > 1 else {"": next(iter(figures.values()))}


def throughput_chart(data: ReportData) -> Chart:
    """Output tokens per second of both arms at each level, with the break-even marked."""
    title = "Throughput against load"
    known = [level for level in data.levels if any(level.part.throughput(arm) is not None for arm in data.arms)]
    if not known:
        reason = "The server reports no token counts, so throughput in tokens is unknown."
        succeeded = any(level.part.counts(arm).get("ok") for level in data.levels for arm in data.arms)
        return absent("throughput", title, reason if succeeded else "No request succeeded.")

    def draw(levels: list[Level]) -> Figure:
        return figure(
            [_curve(arm, levels) for arm in data.arms], 340, showlegend=True, hovermode="x unified",
            xaxis=load_axis(levels), yaxis=axis("output tokens per second", rangemode="tozero"),
            **_break_even_mark(data, levels),
        )  # fmt: skip

    caption = "All tokens of all requests together. Higher is better."
    caption = f"{caption} {_ONE_LEVEL}" if len(known) == 1 else caption
    table = _throughput_table(data, known)
    return Chart(
        "throughput", title, caption, variants_by_kind(known, draw), kind_controls(list(kinds_of(known))), table
    )


def _curve(arm: str, levels: Sequence[Level]) -> dict[str, Any]:
    found = [(level, level.part.throughput(arm)) for level in levels]
    known = [(level_place(level), value) for level, value in found if value is not None]
    return line_trace(arm, known, "%{y:.4~g} tokens/s")


def line_trace(arm: str, known: Sequence[tuple[float | str, float]], template: str) -> dict[str, Any]:
    """An arm's curve over (place, value), with its colour, mark and dash."""
    style = ARM_STYLE[arm]
    return {
        "type": "scatter", "mode": "lines+markers", "name": arm,
        "x": [place for place, _ in known], "y": [value for _, value in known],
        "line": {"color": style["color"], "width": 2.5, "dash": style["dash"]},
        "marker": {"symbol": style["symbol"], "size": 9, "color": style["color"]},
        "hovertemplate": template,
    }  # fmt: skip


def _break_even_mark(data: ReportData, levels: Sequence[Level]) -> Figure:
    """A line at the break-even concurrency, and a band over its interval; nothing on other axes."""
    value = break_even(data)
    places = [level.value for level in levels if level.value]
    if not levels[0].closed or value is None or not min(places) <= value <= max(places):
        return {}
    line = {"color": "@ink", "width": 1.5, "dash": "dot"}
    low, high = break_even_interval(data)
    shape = {"type": "line", "x0": value, "x1": value, "yref": "y domain", "y0": 0, "y1": 1, "line": line}
    band = {
        "type": "rect", "yref": "y domain", "y0": 0, "y1": 1, "layer": "below", "line": {"width": 0},
        "fillcolor": "@band", "x0": min(places) if low is None else low, "x1": max(places) if high is None else high,
    }  # fmt: skip
    at = math.log10(value) if load_axis(levels).get("type") == "log" else value
    note = {
        "x": at, "xanchor": "left", "xshift": 5, "yref": "paper", "y": 0.02, "yanchor": "bottom", "showarrow": False,
        "text": f"break-even {number_text(value)}", "font": {"size": 12, "color": "@ink"},
    }  # fmt: skip
    return {"shapes": [shape] if low is None and high is None else [band, shape], "annotations": [note]}


def _throughput_table(data: ReportData, levels: Sequence[Level]) -> Table:
    rows = []
    for level in levels:
        values = (level.part.throughput(arm) for arm in data.arms)
        cells = (text_cell("–") if value is None else text_cell(number_text(value)) for value in values)
        rows.append((text_cell(level.label), *cells))
    return Table(("Load", *(f"{arm}, tokens/s" for arm in data.arms)), tuple(rows))


def latency_load_chart(data: ReportData) -> Chart:
    """Median and p95 of the latencies of both arms at each level."""
    title = "Latency against load"
    levels = [
        level for level in data.levels if any(level.part.metric(a, "request_latency").get("p50") for a in data.arms)
    ]
    if len(levels) < 2:
        reason = _ONE_LEVEL if levels else "No request succeeded, so there is no latency to show."
        return absent("latency-load", title, reason)
    kinds = kinds_of(levels)
    variants = {
        "|".join([name, *([kind] if len(kinds) > 1 else [])]): _latencies(data, members, name)
        for name in _LATENCIES for kind, members in kinds.items()
    }  # fmt: skip
    names = Control("metric", "Show", tuple(Choice(name, metric_name(name)) for name in _LATENCIES))
    caption = "Line: median. Whisker: up to the 95th percentile, where the sample carries it. Lower is better."
    table = _latency_table(data, levels)
    return Chart("latency-load", title, caption, variants, (names, *kind_controls(list(kinds))), table)


def _latencies(data: ReportData, levels: Sequence[Level], name: str) -> Figure:
    unit = display_unit("s", [level.part.metric(arm, name).get("p95") for level in levels for arm in data.arms])
    traces = [_whiskers(levels, arm, name, unit) for arm in data.arms]
    return figure(
        traces, 340, showlegend=True, hovermode="x unified", xaxis=load_axis(levels),
        yaxis=axis(f"{metric_name(name).lower()} in {unit.name}", rangemode="tozero"),
    )  # fmt: skip


def _whiskers(levels: Sequence[Level], arm: str, name: str, unit: DisplayUnit) -> dict[str, Any]:
    rows = [(level_place(level), level.part.metric(arm, name)) for level in levels]
    known = [(place, row["p50"] * unit.factor, row.get("p95")) for place, row in rows if row.get("p50") is not None]
    line = line_trace(arm, [(place, middle) for place, middle, _ in known], f"%{{y:.4~g}} {unit.name}")
    tops = [0 if high is None else high * unit.factor - middle for _, middle, high in known]
    color = ARM_STYLE[arm]["color"]
    whisker = {"type": "data", "symmetric": False, "array": tops, "arrayminus": [0] * len(tops), "color": color}
    return {**line, "error_y": {**whisker, "thickness": 1.3, "width": 4}}


def _latency_table(data: ReportData, levels: Sequence[Level]) -> Table:
    lines = []
    for name in _LATENCIES:
        for level in levels:
            unit = display_unit("s", [level.part.metric(arm, name).get("p50") for arm in data.arms])
            cells = [level.part.cell(arm, name, key, unit) for arm in data.arms for key in ("p50", "p95")]
            shown = (Cell(cell.text, reason=cell.reason) for cell in cells)
            lines.append((text_cell(f"{metric_name(name)}, {unit.name}"), text_cell(level.label), *shown))
    columns = (f"{arm} {key}" for arm in data.arms for key in ("p50", "p95"))
    return Table(("Metric", "Load", *columns), tuple(lines), frozenset({1}))


def levels_chart(data: ReportData) -> Chart:
    """Speed-up at each level with its interval as a band, and a line at 1."""
    title = "Speed-up against load"
    known = {level: found for level in data.levels if (found := level.part.speedup(data.headline)) is not None}
    if not known:
        return absent("levels", title, "No prompt was answered by both arms, so there is no speed-up to show.")
    if len(known) == 1:
        ((level, only),) = known.items()
        return absent("levels", title, f"{only.text} at {level.label}. {_ONE_LEVEL}")

    def draw(levels: list[Level]) -> Figure:
        marks = _break_even_mark(data, levels)
        shapes = [*marks.pop("shapes", []), unity("y")]
        return figure(
            _speedup_traces({level: known[level] for level in levels}), 340, hovermode="closest", shapes=shapes,
            xaxis=load_axis(levels), yaxis=axis("speed-up (1 = no difference)", tickformat=".2~f"), **marks,
        )  # fmt: skip

    caption = f"Ratio of {metric_name(data.headline).lower()}, baseline to speculative; the band is the interval."
    if any(break_even_interval(data)):
        caption += " The grey band is the interval of the break-even."
    rows = tuple(
        (text_cell(lv.label), text_cell(ratio_text(i.estimate)), text_cell(i.range_text)) for lv, i in known.items()
    )
    table = Table(("Load", "Speed-up", "Interval"), rows, frozenset({2}))
    controls = kind_controls(list(kinds_of(list(known))))
    return Chart("levels", title, caption, variants_by_kind(list(known), draw), controls, table)


def _speedup_traces(known: Mapping[Level, Interval]) -> list[dict[str, Any]]:
    points = [(level_place(level), level.label, interval) for level, interval in known.items()]
    return [*_band(points), _points(points)]


def _points(known: Sequence[tuple[float | str, str, Interval]]) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "lines+markers", "cliponaxis": False,
        "x": [place for place, _, _ in known], "y": [interval.estimate for _, _, interval in known],
        "line": {"color": "@speculative", "width": 2.5}, "marker": {"size": 10, "color": "@speculative"},
        "hovertext": [f"{label}<br>{interval.text}" for _, label, interval in known], "hoverinfo": "text",
        "error_y": {
            "type": "data", "symmetric": False, "color": "@speculative", "thickness": 1.5, "width": 4,
            "array": [i.shown_ends[1] - i.estimate for _, _, i in known],
            "arrayminus": [i.estimate - i.shown_ends[0] for _, _, i in known],
        },
    }  # fmt: skip


def _band(known: Sequence[tuple[float | str, str, Interval]]) -> list[dict[str, Any]]:
    """The area between low and high, drawn only where there are at least two levels with an interval."""
    ends = [(place, *i.shown_ends) for place, _, i in known if i.low is not None and i.high is not None]
    if len(ends) < 2:
        return []
    edge = {"type": "scatter", "mode": "lines", "line": {"width": 0, "color": "@speculative"}, "hoverinfo": "skip"}
    x = [place for place, _, _ in ends]
    lower = {**edge, "x": x, "y": [low for _, low, _ in ends]}
    upper = {**edge, "x": x, "y": [high for _, _, high in ends], "fill": "tonexty", "fillcolor": "@speculative-band"}
    return [lower, upper]
