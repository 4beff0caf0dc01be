"""Speed-up by category and by metric, and the latency distributions of both arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trtspec.reports.charts import (
    ARM_STYLE,
    Chart,
    Choice,
    Control,
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
from trtspec.reports.data import ReportData
from trtspec.reports.formats import Cell, DisplayUnit, Table, display_unit, number_text, ratio_text, text_cell
from trtspec.reports.levels import Level
from trtspec.reports.names import metric_name, speedup_name
from trtspec.reports.reading import Interval, Part
from trtspec.reports.rows import measured, samples

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Row", "category_chart", "forest", "latency_chart", "metric_chart"]

DISTRIBUTIONS = ("time_to_first_token", "time_per_output_token", "request_latency")
_CURVE_POINTS = 400
_ALL = "all prompts"
_NO_PAIRS = "No prompt was answered by both arms, so there is no speed-up to show."
_POOLED = Choice("all", "all loads")
# a row of a forest: its name, the speed-up, and whether it stands for all others
Row = tuple[str, Interval, bool]


def category_chart(data: ReportData) -> Chart:
    """Speed-up with interval by prompt category at each load, best on top, and a line at 1."""
    title = "Speed-up by category"
    choices = _category_rows(data)
    if not choices:
        return absent("category", title, _NO_PAIRS)
    height = max(300, 110 + 38 * max(len(rows) for rows, _ in choices.values()))
    caption = f"Ratio of {metric_name(data.headline).lower()}, baseline to speculative; a bar is its interval."
    if list(choices) == [_POOLED.value] and len(data.levels) > 1:
        caption += " All loads are pooled, each compared with itself."
    tables = [line for rows, part in choices.values() for line in rows_of(rows, part, data.headline)]
    columns = ("Load", "Category", "Speed-up", "Low", "High", "Pairs")
    return Chart(
        "category", title, caption, {value: forest(rows, height) for value, (rows, _) in choices.items()}
        if len(choices) > 1 else {"": forest(next(iter(choices.values()))[0], height)},
        _category_controls(data, choices), Table(columns, tuple(tables), frozenset({1})), height=height,
    )  # fmt: skip


def _category_rows(data: ReportData) -> dict[str, tuple[list[Row], _Categories]]:
    """Control value → rows, of each level that tells its categories, else of the whole run."""
    found = {}
    for level in data.levels if len(data.levels) > 1 else ():
        part = _Categories(level.label, level.part, data.categories(level))
        if part.by_name and (rows := part.rows(data.headline)):
            found[level.label] = (rows, part)
    pooled = _Categories("all" if len(data.levels) > 1 else "", data.whole, data.categories())
    rows = pooled.rows(data.headline)
    return {**found, _POOLED.value: (rows, pooled)} if rows else found


def _category_controls(data: ReportData, choices: Mapping[str, Any]) -> tuple[Control, ...]:
    if len(choices) < 2:
        return ()
    known = [level for level in data.levels if level.label in choices]
    return (level_control(known, extra=(_POOLED,) if _POOLED.value in choices else ()),)


class _Categories:
    """The speed-ups of the categories of one part of the run."""

    def __init__(self, load: str, part: Part, by_name: Mapping[str, Part]) -> None:
        self.load, self.part, self.by_name = load, part, by_name

    def rows(self, metric: str) -> list[Row]:
        """All prompts first, then the categories, the best on top."""
        known = [(name, found, False) for name, part in self.by_name.items() if (found := part.speedup(metric))]
        known.sort(key=lambda row: -row[1].estimate)
        whole = self.part.speedup(metric)
        return [(_ALL, whole, True), *known] if whole is not None else list(known)

    def of(self, name: str) -> Part:
        """The part that a row is of."""
        return self.by_name.get(name, self.part)


def rows_of(rows: Sequence[Row], part: _Categories, metric: str) -> list[tuple[Cell, ...]]:
    """The table's lines of a forest."""
    lines = []
    for name, interval, _ in rows:
        cells = [part.of(name).speedup_cell(metric, key) for key in ("estimate", "low", "high")]
        count = part.of(name).compared.get("pairs", interval.count)
        counted = Cell("–", reason="not told") if count is None else text_cell(count)
        lines.append((text_cell(part.load or "all"), text_cell(name), *cells, counted))
    return lines


def metric_chart(data: ReportData) -> Chart:
    """Speed-up of every metric with its interval, at each load."""
    title = "Speed-up by metric"
    parts = {level.label: level.part for level in data.levels}
    rows = {label: _metric_rows(part) for label, part in parts.items()}
    rows = {label: found for label, found in rows.items() if found}
    if not rows:
        return absent("metric", title, _NO_PAIRS)
    height = max(300, 110 + 38 * max(map(len, rows.values())))
    caption = "Each metric's own ratio, baseline to speculative: one may win while another loses."
    lines = [
        (text_cell(label), text_cell(name), text_cell(ratio_text(found.estimate)), text_cell(found.range_text))
        for label, of_level in rows.items()
        for name, found, _ in of_level
    ]
    table = Table(("Load", "Metric", "Speed-up", "Interval"), tuple(lines), frozenset({1, 3}))
    shown = [level for level in data.levels if level.label in rows]
    variants = {label: forest(found, height) for label, found in rows.items()}
    return Chart("metric", title, caption, variants, (level_control(shown),), table, height=height)


def _metric_rows(part: Part) -> list[Row]:
    found = [(speedup_name(name), part.speedup(name)) for name in part.speedups]
    return [(name, interval, False) for name, interval in found if interval is not None]


def forest(rows: Sequence[Row], height: int, title: str = "speed-up (1 = no difference)") -> Figure:
    """Intervals one below the other, with a dot at the estimate and a line at 1."""
    ends = [1.0, *(end for _, interval, _ in rows for end in interval.shown_ends)]
    pad = 0.08 * max(max(ends) - min(ends), 0.2)
    places = list(range(len(rows)))
    bars = {
        "type": "scatter", "mode": "lines", "hoverinfo": "skip", "opacity": 0.42,
        "x": [x for _, interval, _ in rows for x in (*interval.shown_ends, None)],
        "y": [y for place in places for y in (place, place, None)],
        "line": {"color": "@speculative", "width": 8},
    }  # fmt: skip
    dots = {
        "type": "scatter", "mode": "markers", "cliponaxis": False, "x": [i.estimate for _, i, _ in rows],
        "y": places,
        "marker": {
            "color": "@speculative", "line": {"color": "@card", "width": 2}, "size": 14,
            "symbol": ["diamond" if whole else "circle" for _, _, whole in rows],
        },
        "hovertext": [f"<b>{safe(name)}</b><br>{interval.text}" for name, interval, _ in rows],
        "hoverinfo": "text",
    }  # fmt: skip
    labels = [
        {
            "x": 1, "xref": "paper", "xanchor": "left", "xshift": 8, "y": place, "showarrow": False,
            "text": ratio_text(interval.estimate), "font": {"size": 13, "color": "@ink"},
        }
        for place, (_, interval, _) in enumerate(rows)
    ]  # fmt: skip
    names = [safe(short(name, 30)) for name, _, _ in rows]
    ticks = {"tickvals": places, "ticktext": names, "tickfont": {"color": "@ink", "size": 13}}
    return figure(
        [bars, dots], height, annotations=labels, shapes=[unity("x")], margin={"l": 10, "r": 62, "t": 14, "b": 48},
        xaxis=axis(title, range=[min(ends) - pad, max(ends) + pad], tickformat=".2~f"),
        yaxis=axis("", range=[len(rows) - 0.5, -0.5], showgrid=False, **ticks),
    )  # fmt: skip


def latency_chart(data: ReportData) -> Chart:
    """Cumulative distributions of both arms; metric and load are the reader's choice."""
    title = "Latency distribution"
    levels = [level for level in data.levels if measured(data.table, load=level.label).any()]
    if not levels:
        return absent("latency", title, "No request succeeded, so there is no latency to show.")
    variants = {f"{name}|{level.label}": _ecdf(data, name, level) for name in DISTRIBUTIONS for level in levels}
    names = Control("metric", "Show", tuple(Choice(name, metric_name(name)) for name in DISTRIBUTIONS))
    caption = "Share of requests that were at least as fast as the value below. Further left is faster."
    return Chart(
        "latency", title, caption, variants, (names, level_control(levels)), _latency_table(data, levels), height=330
    )


def _ecdf(data: ReportData, name: str, level: Level) -> Figure:
    found = {arm: samples(data.table, name, arm=arm, load=level.label) for arm in data.arms}
    known = {arm: values for arm, values in found.items() if len(values)}
    unit = display_unit("s", [float(values[-1]) for values in known.values()])
    traces = []
    for arm, values in known.items():
        median = level.part.metric(arm, name).get("p50")
        traces.append(_steps(arm, values, unit))
        if median is not None:
            traces[-1]["name"] = f"{arm}, median {number_text(median * unit.factor)} {unit.name}"
            traces.append(_middle(median * unit.factor, ARM_STYLE[arm]))
    return figure(
        traces, 330, showlegend=True, annotations=[] if known else [_words("not measured at this load")],
        xaxis=axis(f"{metric_name(name)} in {unit.name}", rangemode="tozero"), yaxis=share_axis("requests"),
    )  # fmt: skip


def _steps(arm: str, values: NDArray[Any], unit: DisplayUnit) -> dict[str, Any]:
    style = ARM_STYLE[arm]
    steps = _thin(values)
    return {
        "type": "scatter", "mode": "lines", "name": arm,
        "line": {"shape": "hv", "color": style["color"], "width": 2.5, "dash": style["dash"]},
        "x": [_digits(value * unit.factor) for value, _ in steps], "y": [_digits(100 * share) for _, share in steps],
        "hovertemplate": f"{arm}: %{{y:.0f}} % within %{{x:.4~g}} {unit.name}<extra></extra>",
    }  # fmt: skip


def _digits(value: float) -> float:
    """Six significant digits: more cannot be seen, and would make the page larger."""
    return float(f"{value:.6g}")


def _middle(value: float, style: Mapping[str, str]) -> dict[str, Any]:
    marker = {"color": style["color"], "size": 10, "symbol": style["symbol"], "line": {"color": "@card", "width": 1.5}}
    place = {"x": [value], "y": [50], "marker": marker, "cliponaxis": False}
    return {"type": "scatter", "mode": "markers", "showlegend": False, "hoverinfo": "skip", **place}


def _words(text: str) -> Figure:
    place = {"x": 0.5, "y": 0.5, "xref": "paper", "yref": "paper", "showarrow": False}
    return {**place, "text": text, "font": {"color": "@muted", "size": 14}}


def _thin(values: NDArray[Any]) -> list[tuple[float, float]]:
    """(value, share of requests within it) of sorted values, at most a few hundred points, both ends kept."""
    count = len(values)
    stride = max(1, count // _CURVE_POINTS)
    kept = sorted({*range(0, count, stride), count - 1})
    return [(float(values[0]), 0.0), *((float(values[index]), (index + 1) / count) for index in kept)]


def _latency_table(data: ReportData, levels: Sequence[Level]) -> Table:
    lines = []
    for name in DISTRIBUTIONS:
        for level in levels:
            unit = display_unit("s", [level.part.metric(arm, name).get("p50") for arm in data.arms])
            for arm in data.arms:
                cells = (level.part.cell(arm, name, statistic, unit) for statistic in ("p50", "p90", "p95", "p99"))
                label = f"{metric_name(name)}, {unit.name}"
                lines.append((text_cell(label), text_cell(level.label), text_cell(arm), *cells))
    columns = ("Metric", "Load", "Arm", "p50", "p90", "p95", "p99")
    return Table(columns, tuple(lines), frozenset({1, 2}))
