"""Speed-up by category, and the latency distributions of both arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trtspec.reports.charts import (
    ARM_STYLE,
    Chart,
    Choice,
    Control,
    Figure,
    absent,
    axis,
    figure,
    safe,
    share_axis,
    short,
    unity,
)
from trtspec.reports.data import ReportData
from trtspec.reports.formats import Cell, DisplayUnit, Table, display_unit, number_text, ratio_text, text_cell
from trtspec.reports.names import metric_name
from trtspec.reports.reading import Interval

__all__ = ["category_chart", "latency_chart"]

DISTRIBUTIONS = ("time_to_first_token", "time_per_output_token", "request_latency")
_ECDF_POINTS = 400
_ALL = "all prompts"


def category_chart(data: ReportData) -> Chart:
    """Speed-up with interval by prompt category, best on top, and a line at 1."""
    title = "Speed-up by category"
    name = data.headline
    found = {key: part.speedup(name) for key, part in data.by_category.items()}
    known = {key: interval for key, interval in found.items() if interval is not None}
    if not known:
        return absent("category", title, "No prompt was answered by both arms, so there is no speed-up to show.")
    whole = data.whole.speedup(name)
    rows = sorted(known.items(), key=lambda item: item[1].estimate, reverse=True)
    if whole is not None:
        rows = [(_ALL, whole), *rows]
    height = max(300, 110 + 38 * len(rows))
    caption = f"Ratio of {metric_name(name).lower()}, baseline to speculative; a bar is its interval."
    return Chart(
        "category", title, caption, {"": _forest(rows, height)}, table=_category_table(data, rows), height=height
    )


def _forest(rows: Sequence[tuple[str, Interval]], height: int) -> Figure:
    ends = [1.0, *(end for _, interval in rows for end in interval.ends)]
    pad = 0.08 * max(max(ends) - min(ends), 0.2)
    places = list(range(len(rows)))
    bars = {
        "type": "scatter", "mode": "lines", "hoverinfo": "skip", "opacity": 0.42,
        "x": [x for _, interval in rows for x in (*interval.ends, None)],
        "y": [y for place in places for y in (place, place, None)],
        "line": {"color": "@speculative", "width": 8},
    }  # fmt: skip
    dots = {
        "type": "scatter", "mode": "markers", "cliponaxis": False, "x": [i.estimate for _, i in rows],
        "y": places,
        "marker": {
            "color": "@speculative", "line": {"color": "@card", "width": 2}, "size": 14,
            "symbol": ["diamond" if name == _ALL else "circle" for name, _ in rows],
        },
        "hovertext": [f"<b>{safe(name)}</b><br>{interval.text}" for name, interval in rows],
        "hoverinfo": "text",
    }  # fmt: skip
    labels = [
        {
            "x": 1, "xref": "paper", "xanchor": "left", "xshift": 8, "y": place, "showarrow": False,
            "text": ratio_text(interval.estimate), "font": {"size": 13, "color": "@ink"},
        }
        for place, (_, interval) in enumerate(rows)
    ]  # fmt: skip
    names = [safe(short(name)) for name, _ in rows]
    ticks = {"tickvals": places, "ticktext": names, "tickfont": {"color": "@ink", "size": 13}}
    return figure(
        [bars, dots], height, annotations=labels, shapes=[unity("x")], margin={"l": 10, "r": 62, "t": 14, "b": 48},
        xaxis=axis("speed-up (1 = no difference)", range=[min(ends) - pad, max(ends) + pad], tickformat=".2~f"),
        yaxis=axis("", range=[len(rows) - 0.5, -0.5], showgrid=False, **ticks),
    )  # fmt: skip


def _category_table(data: ReportData, rows: Sequence[tuple[str, Interval]]) -> Table:
    lines = []
    for name, _ in rows:
        part = data.whole if name == _ALL else data.by_category[name]
        pairs = sum(pair.complete for pair in data.pairs if name in {_ALL, pair.category})
        cells = [part.speedup_cell(data.headline, key) for key in ("estimate", "low", "high")]
        if name != _ALL:
            cells = [Cell(cell.text, reason=cell.reason) for cell in cells]
        lines.append((text_cell(name), *cells, text_cell(pairs)))
    return Table(("Category", "Speed-up", "Low", "High", "Pairs"), tuple(lines))


def latency_chart(data: ReportData) -> Chart:
    """Cumulative distributions of both arms; metric and concurrency are the reader's choice."""
    title = "Latency distribution"
    levels = sorted({request.concurrency for request in data.requests if request.ok})
    if not levels:
        return absent("latency", title, "No request succeeded, so there is no latency to show.")
    variants = {f"{name}|{level}": _ecdf(data, name, level) for name in DISTRIBUTIONS for level in levels}
    controls = (
        Control("metric", "Show", tuple(Choice(name, metric_name(name)) for name in DISTRIBUTIONS)),
        Control("level", "Concurrency", tuple(Choice(str(level), str(level)) for level in levels)),
    )
    caption = "Share of requests that were at least as fast as the value below. Further left is faster."
    return Chart("latency", title, caption, variants, controls, _latency_table(data, levels), wide=False, height=330)


def _ecdf(data: ReportData, name: str, level: int) -> Figure:
    samples = {arm: _samples(data, arm, name, level) for arm in data.arms}
    samples = {arm: values for arm, values in samples.items() if values}
    unit = display_unit("s", [values[-1] for values in samples.values()])
    traces = []
    for arm, values in samples.items():
        median = data.by_level[level].metric(arm, name).get("p50")
        traces.append(_steps(arm, values, unit))
        if median is not None:
            traces[-1]["name"] = f"{arm}, median {number_text(median * unit.factor)} {unit.name}"
            traces.append(_middle(median * unit.factor, ARM_STYLE[arm]))
    return figure(
        traces, 330, showlegend=True, annotations=[] if samples else [_words("not measured at this concurrency")],
        xaxis=axis(f"{metric_name(name)} in {unit.name}", rangemode="tozero"), yaxis=share_axis("requests"),
    )  # fmt: skip


def _steps(arm: str, values: Sequence[float], unit: DisplayUnit) -> dict[str, Any]:
    style = ARM_STYLE[arm]
    steps = _thin(values)
    return {
        "type": "scatter", "mode": "lines", "name": arm,
        "line": {"shape": "hv", "color": style["color"], "width": 2.5, "dash": style["dash"]},
        "x": [value * unit.factor for value, _ in steps], "y": [100 * share for _, share in steps],
        "hovertemplate": f"{arm}: %{{y:.0f}} % within %{{x:.4~g}} {unit.name}<extra></extra>",
    }  # fmt: skip


def _middle(value: float, style: Mapping[str, str]) -> dict[str, Any]:
    marker = {"color": style["color"], "size": 10, "symbol": style["symbol"], "line": {"color": "@card", "width": 1.5}}
    place = {"x": [value], "y": [50], "marker": marker, "cliponaxis": False}
    return {"type": "scatter", "mode": "markers", "showlegend": False, "hoverinfo": "skip", **place}


def _words(text: str) -> Figure:
    place = {"x": 0.5, "y": 0.5, "xref": "paper", "yref": "paper", "showarrow": False}
    return {**place, "text": text, "font": {"color": "@muted", "size": 14}}


def _samples(data: ReportData, arm: str, name: str, level: int) -> list[float]:
    rows = (request for request in data.requests if request.arm == arm and request.concurrency == level and request.ok)
    values = (request.times[name] for request in rows)
    return sorted(value for value in values if value is not None)


def _thin(values: Sequence[float]) -> list[tuple[float, float]]:
    """(value, share of requests within it), at most a few hundred points, both ends kept."""
    count = len(values)
    stride = max(1, count // _ECDF_POINTS)
    kept = sorted({*range(0, count, stride), count - 1})
    return [(values[0], 0.0), *((values[index], (index + 1) / count) for index in kept)]


def _latency_table(data: ReportData, levels: Sequence[int]) -> Table:
    lines = []
    for name in DISTRIBUTIONS:
        for level in levels:
            part = data.by_level[level]
            unit = display_unit("s", [part.metric(arm, name).get("p50") for arm in data.arms])
            for arm in data.arms:
                cells = (part.cell(arm, name, statistic, unit) for statistic in ("p50", "p90", "p95", "p99"))
                plain = tuple(Cell(cell.text, reason=cell.reason) for cell in cells)
                head = (text_cell(f"{metric_name(name)}, {unit.name}"), text_cell(level), text_cell(arm))
                lines.append((*head, *plain))
    return Table(("Metric", "Concurrency", "Arm", "p50", "p90", "p95", "p99"), tuple(lines))
