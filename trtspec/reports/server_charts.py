"""What the servers themselves told: where the first token's time goes, queue, KV cache, power and energy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trtspec.reports.arm_points import ArmPoint, needs_room, point_figure, point_table
from trtspec.reports.charts import ARM_STYLE, Chart, Choice, Control, Figure, absent, axis, figure, legend
from trtspec.reports.data import ReportData
from trtspec.reports.formats import Cell, Table, display_unit, number_text, text_cell

__all__ = ["energy_chart", "first_token_chart", "server_rows", "telemetry_chart"]

_SPLIT = {
    "client_and_network": ("client and network", "@part-1"),
    "queue": ("queue", "@part-2"),
    "prefill": ("prefill", "@part-3"),
}
_GAUGES = {
    "waiting_requests": "waiting requests",
    "running_requests": "running requests",
    "kv_cache_usage": "KV cache in use",
    "draft_length": "draft length",
}
_GPU = {
    "power": ("GPU power", "W"),
    "utilisation": ("GPU utilisation", "share"),
    "memory_used": ("GPU memory", "bytes"),
}
# samples of one curve: more cannot be told apart
_CURVE = 400
# bars that fit beside another chart
_MANY_BARS = 6


_NORMAL = {**legend(), "traceorder": "normal"}


def server_rows(data: ReportData) -> list[tuple[str, str, Mapping[str, Any]]]:
    """(load, arm, figures) of everything that the servers told, in the order of the loads."""
    section: Any = data.summary.get("server")
    if not isinstance(section, Mapping):
        return []
    found = [
        (level.label, arm, (section.get(arm) or {}).get(level.label)) for level in data.levels for arm in data.arms
    ]
    return [(load, arm, row) for load, arm, row in found if isinstance(row, Mapping)]


def first_token_chart(data: ReportData) -> Chart:
    """The time to first token in its parts, by the server's own stamps."""
    title = "Where the time to first token goes"
    rows = [(load, arm, row.get("first_token") or {}) for load, arm, row in server_rows(data)]
    known = [(load, arm, parts) for load, arm, parts in rows if _mean(parts, "prefill") is not None]
    if not known:
        reason = "the server sends no stamps of its own (return_perf_metrics)"
        return absent("first-token", title, f"Unknown: {reason}.")
    unit = display_unit("s", [_mean(parts, name) for _, _, parts in known for name in _SPLIT])
    names = [f"{arm}, {load}" for load, arm, _ in known]
    traces = [_part(name, names, [_mean(parts, name) or 0.0 for _, _, parts in known], unit.factor) for name in _SPLIT]
    height = max(240, 110 + (42 if len(names) <= _MANY_BARS else 30) * len(names))
    shown = figure(
        traces, height, showlegend=True, legend=_NORMAL, barmode="stack", bargap=0.4,
        margin={"l": 10, "r": 20, "t": 34, "b": 48}, xaxis=axis(f"mean time in {unit.name}", rangemode="tozero"),
        yaxis=axis("", autorange="reversed", showgrid=False, tickfont={"color": "@ink", "size": 13}),
    )  # fmt: skip
    caption = "From the server's own stamps; client and network is what the client measured beyond them."
    table = Table(
        ("Arm and load", *(f"{label}, {unit.name}" for label, _ in _SPLIT.values())),
        tuple((text_cell(n), *(_cell(_mean(p, part), unit.factor) for part in _SPLIT))
              for n, (_, _, p) in zip(names, known, strict=True)),
    )  # fmt: skip
    return Chart("first-token", title, caption, {"": shown}, table=table, height=height, wide=len(names) > _MANY_BARS)


def _mean(parts: Mapping[str, Any], name: str) -> float | None:
    value = (parts.get(name) or {}).get("mean")
    return None if value is None else float(value)


def _cell(value: float | None, factor: float) -> Cell:
    return Cell("–", reason="not measured") if value is None else text_cell(number_text(value * factor))


def _part(name: str, names: Sequence[str], values: Sequence[float], factor: float) -> Figure:
    label, color = _SPLIT[name]
    shown = [value * factor for value in values]
    return {
        "type": "bar", "orientation": "h", "name": label, "y": list(names), "x": shown, "marker": {"color": color},
        "hovertext": [f"{at}<br>{label}: {number_text(value)}" for at, value in zip(names, shown, strict=True)],
        "hoverinfo": "text",
    }  # fmt: skip


def energy_chart(data: ReportData) -> Chart:
    """Joules per output token of both arms at each load."""
    title = "Energy per token"
    rows = [(load, arm, row.get("energy") or {}) for load, arm, row in server_rows(data)]
    points = [_energy(load, arm, row) for load, arm, row in rows]
    if all(point.value is None for point in points):
        reason = next((point.reason for point in points if point.reason), "no GPU told its energy")
        return absent("energy", title, f"Unknown: {reason}.")
    source = next((row.get("source") for _, _, row in rows if row.get("source")), None)
    caption = f"GPU energy under load over output tokens, from {source}. Lower is better."
    y = axis("joules per output token", rangemode="tozero")
    table, wide = point_table(points, "J/token"), needs_room(points)
    return Chart("energy", title, caption, {"": point_figure(points, y)}, table=table, height=320, wide=wide)


def _energy(load: str, arm: str, row: Mapping[str, Any]) -> ArmPoint:
    value = row.get("joules_per_token")
    if value is None:
        return ArmPoint(load, arm, None, "", reason=str(row.get("reason") or "not measured"))
    power = row.get("mean_power")
    text = f"{number_text(value)} J/token" + (f", {number_text(power)} W on average" if power else "")
    return ArmPoint(load, arm, float(value), text)


def telemetry_chart(data: ReportData) -> Chart:
    """Gauges of the servers and of the GPUs over the run's time."""
    title = "Server and GPU during the run"
    curves = {**_gauge_curves(data), **_gpu_curves(data)}
    if not curves:
        return absent(
            "telemetry", title, "No telemetry was recorded: neither the servers' gauges nor the GPUs were read."
        )
    variants = {name: _over_time(lines, label) for name, (label, lines) in curves.items()}
    choices = tuple(Choice(name, label) for name, (label, _) in curves.items())
    caption = "Sampled about once a second. The arms take turns, so each server has its own busy times."
    table = Table(("Figure", "Of", "Mean", "Largest", "Samples"), tuple(_rows(curves)), frozenset({1}))
    controls = (Control("gauge", "Show", choices),)
    return Chart("telemetry", title, caption, variants, controls, table, height=320, wide=True)


# what it is of → its points in (seconds, value)
_Lines = Mapping[str, Sequence[tuple[float, float]]]


def _gauge_curves(data: ReportData) -> dict[str, tuple[str, _Lines]]:
    if data.samples is None:
        return {}
    curves: dict[str, tuple[str, _Lines]] = {}
    for name, label in _GAUGES.items():
        lines = {
            arm: [(data.since_start(t_ns), sum(found[name].values())) for t_ns, found in rows if found.get(name)]
            for arm, rows in data.samples.gauges.items()
        }
        if any(lines.values()):
            curves[name] = (label, {arm: points for arm, points in lines.items() if points})
    return curves


def _gpu_curves(data: ReportData) -> dict[str, tuple[str, _Lines]]:
    if data.samples is None:
        return {}
    curves: dict[str, tuple[str, _Lines]] = {}
    for name, (label, unit) in _GPU.items():
        lines = {
            f"GPU {gpu}": [
                (data.since_start(row["t_ns"]), _scaled(row[name], unit)) for row in rows if _number(row.get(name))
            ]
            for gpu, rows in data.samples.gpus.items()
        }
        if any(lines.values()):
            curves[name] = (
                f"{label}, {_UNITS.get(unit, unit)}",
                {gpu: points for gpu, points in lines.items() if points},
            )
    return curves


_UNITS = {"share": "%", "bytes": "GiB"}


def _scaled(value: float, unit: str) -> float:
    return value * 100 if unit == "share" else value / 2**30 if unit == "bytes" else value


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _over_time(lines: _Lines, label: str) -> Figure:
    traces = [_curve(name, _thin(points), place) for place, (name, points) in enumerate(lines.items())]
    return figure(
        traces, 320, showlegend=True, hovermode="x unified", xaxis=axis("seconds since the first request"),
        yaxis=axis(label, rangemode="tozero"),
    )  # fmt: skip


_GPU_COLORS = ("@part-1", "@part-2", "@part-3", "@muted")


def _curve(name: str, points: Sequence[tuple[float, float]], place: int) -> Figure:
    style = ARM_STYLE.get(name)
    color = style["color"] if style else _GPU_COLORS[place % len(_GPU_COLORS)]
    dash = style["dash"] if style else "solid"
    return {
        "type": "scatter", "mode": "lines", "name": name, "line": {"color": color, "width": 2, "dash": dash},
        "x": [round(at, 2) for at, _ in points], "y": [float(f"{value:.5g}") for _, value in points],
        "hovertemplate": "%{y:.4~g}",
    }  # fmt: skip


def _thin(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    stride = max(1, len(points) // _CURVE)
    return points[::stride]


def _rows(curves: Mapping[str, tuple[str, _Lines]]) -> list[tuple[Cell, ...]]:
    rows = []
    for label, lines in curves.values():
        for name, points in lines.items():
            values = [value for _, value in points]
            cells = (number_text(sum(values) / len(values)), number_text(max(values)), len(values))
            rows.append((text_cell(label), text_cell(name), *map(text_cell, cells)))
    return rows
