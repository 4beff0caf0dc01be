"""How the run went over time: is the machine steady, and how long each arm took to start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trtspec.reports.charts import ARM_STYLE, Chart, Figure, absent, axis, figure, level_control
from trtspec.reports.data import ReportData
from trtspec.reports.formats import Cell, DisplayUnit, Table, display_unit, number_text, text_cell
from trtspec.reports.levels import Level
from trtspec.reports.rows import measured, seconds
from trtspec.spec.names import Arm

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["start_chart", "timeline_chart"]

# requests are gathered into at most this many pieces of time for each arm
_PIECES = 60
_STAGES = {"launch_to_ready": "launch to ready", "first_answer": "first answer"}


def timeline_chart(data: ReportData) -> Chart:
    """Latency of both arms over the run's time: a steady machine draws two level lines."""
    title = "Was the machine steady?"
    pieces = {level: _pieces(data, level) for level in data.levels}
    pieces = {level: found for level, found in pieces.items() if any(found.values())}
    if not pieces:
        return absent("timeline", title, "No request succeeded, so there is nothing to follow over time.")
    variants = {level.label: _over_time(data, level, found) for level, found in pieces.items()}
    caption = "Request latency over the run: median of the requests that started in each piece of time. "
    caption += "A drift shows as a slope" + ("; the shaded time is steady in both arms." if _windows(data) else ".")
    table = Table(("Load", "Arm", "From, s", "Median latency", "Requests"), tuple(_rows(pieces)), frozenset({1}))
    controls = (level_control(list(pieces)),)
    return Chart("timeline", title, caption, variants, controls, table, height=320, wide=True)


# (seconds since the run's start, median seconds, requests)
Piece = tuple[float, float, int]


def _pieces(data: ReportData, level: Level) -> dict[str, list[Piece]]:
    import numpy as np

    latency = seconds(data.table, "request_latency")
    found: dict[str, list[Piece]] = {}
    for arm in data.arms:
        mask = measured(data.table, arm=arm, load=level.label) & ~np.isnan(latency)
        starts = data.table.start_ns[mask]
        order = np.argsort(starts, kind="stable")
        found[arm] = _gathered(starts[order], latency[mask][order], data)
    return found


def _gathered(starts: NDArray[Any], values: NDArray[Any], data: ReportData) -> list[Piece]:
    import numpy as np

    parts = np.array_split(np.arange(len(starts)), max(1, min(_PIECES, len(starts) // 3)))
    return [
        (data.since_start(int(starts[part[0]])), float(np.median(values[part])), len(part))
        for part in parts
        if len(part)
    ]


def _over_time(data: ReportData, level: Level, pieces: Mapping[str, Sequence[Piece]]) -> Figure:
    unit = display_unit("s", [value for found in pieces.values() for _, value, _ in found])
    traces = [_curve(arm, found, unit) for arm, found in pieces.items() if found]
    return figure(
        traces, 320, showlegend=True, hovermode="closest", shapes=_shades(data, level),
        xaxis=axis("seconds since the first request"), yaxis=axis(f"latency in {unit.name}", rangemode="tozero"),
    )  # fmt: skip


def _curve(arm: str, found: Sequence[Piece], unit: DisplayUnit) -> Figure:
    style = ARM_STYLE[arm]
    return {
        "type": "scatter", "mode": "lines+markers", "name": arm,
        "x": [round(at, 3) for at, _, _ in found], "y": [float(f"{value * unit.factor:.5g}") for _, value, _ in found],
        "line": {"color": style["color"], "width": 1.8, "dash": style["dash"]},
        "marker": {"symbol": style["symbol"], "size": 6, "color": style["color"]},
        "hovertext": [f"{arm} at {at:.1f} s: {number_text(value * unit.factor)} {unit.name}<br>{count} requests"
                      for at, value, count in found],
        "hoverinfo": "text",
    }  # fmt: skip


def _windows(data: ReportData) -> Mapping[str, Any]:
    """Load → the steady window of each arm, as the summary tells."""
    section = data.comparison.get("steady_state")
    rows: Any = section.get("by_load") if isinstance(section, Mapping) else None
    return rows if isinstance(rows, Mapping) else {}


def _shades(data: ReportData, level: Level) -> list[dict[str, Any]]:
    """The time in which both arms are steady."""
    row = _windows(data).get(level.label)
    if not isinstance(row, Mapping):
        return []
    ends = [found for arm in data.arms if (found := _window(data, level, arm, row.get(arm))) is not None]
    if not ends:
        return []
    shade = {"type": "rect", "yref": "y domain", "y0": 0, "y1": 1, "layer": "below", "line": {"width": 0}}
    return [{**shade, "x0": max(begin for begin, _ in ends), "x1": max(end for _, end in ends), "fillcolor": "@band"}]


def _window(data: ReportData, level: Level, arm: Arm, told: Any) -> tuple[float, float] | None:
    """Begin and end in seconds since the run's start; the summary counts from the arm's first pair at that load."""
    pairs = data.pairs.at(level.label)
    if not isinstance(told, Mapping) or told.get("begins") is None or told.get("ends") is None or not len(pairs):
        return None
    zero = data.since_start(int(data.table.origin_ns[pairs.rows(arm)].min()))
    return zero + told["begins"], zero + told["ends"]


def _rows(pieces: Mapping[Level, Mapping[str, Sequence[Piece]]]) -> list[tuple[Cell, ...]]:
    rows = []
    for level, arms in pieces.items():
        for arm, found in arms.items():
            for at, value, count in found:
                unit = display_unit("s", [value])
                cells = (level.label, arm, f"{at:.1f}", f"{number_text(value * unit.factor)} {unit.name}", count)
                rows.append(tuple(map(text_cell, cells)))
    return rows


def start_chart(data: ReportData) -> Chart:
    """How long each arm took from its launch to its first answer."""
    title = "Cold start"
    told = _starts(data)
    if not told:
        return absent("start", title, "Unknown: the servers were already running, or the run did not time their start.")
    traces = [
        _stage(name, told, place) for place, name in enumerate(_STAGES) if any(row.get(name) for row in told.values())
    ]
    height = 110 + 60 * len(told)
    shown = figure(
        traces, max(220, height), showlegend=True, barmode="stack", bargap=0.45,
        margin={"l": 10, "r": 20, "t": 34, "b": 48}, xaxis=axis("seconds", rangemode="tozero"),
        yaxis=axis("", autorange="reversed", showgrid=False, tickfont={"color": "@ink", "size": 13}),
    )  # fmt: skip
    lines = tuple(
        (text_cell(arm), *(Cell("–", reason="not timed") if row.get(name) is None else text_cell(number_text(row[name]))
                           for name in _STAGES))
        for arm, row in told.items()
    )  # fmt: skip
    table = Table(("Arm", *(f"{label}, s" for label in _STAGES.values())), lines)
    return Chart("start", title, "From the launch of an arm's server to its first answer.", {"": shown}, table=table,
                 height=max(220, height))  # fmt: skip


def _starts(data: ReportData) -> dict[str, Mapping[str, float]]:
    """Arm → seconds of each stage."""
    section: Any = data.measurement.get("cold_start")
    if not isinstance(section, Mapping):
        return {}
    rows = {arm: section.get(arm) for arm in data.arms}
    known = {
        arm: {n: row[n] for n in _STAGES if _number(row.get(n))}
        for arm, row in rows.items()
        if isinstance(row, Mapping)
    }
    return {arm: row for arm, row in known.items() if row}


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _stage(name: str, told: Mapping[str, Mapping[str, float]], place: int) -> Figure:
    values = [row.get(name) or 0.0 for row in told.values()]
    return {
        "type": "bar", "orientation": "h", "name": _STAGES[name], "y": list(told), "x": values,
        "marker": {"color": f"@part-{place + 1}"},
        "hovertext": [f"{arm}, {_STAGES[name]}: {number_text(v)} s" for arm, v in zip(told, values, strict=True)],
        "hoverinfo": "text",
    }  # fmt: skip
