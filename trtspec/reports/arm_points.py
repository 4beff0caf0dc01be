"""A figure of both arms at each load, with an interval: points side by side, one form for every such chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trtspec.loadtest.levels import parse_level
from trtspec.reports.charts import ARM_STYLE, Figure, axis, figure
from trtspec.reports.formats import Cell, Table, text_cell

__all__ = ["ArmPoint", "needs_room", "point_figure", "point_table"]

_APART = 0.12
# names of loads that fit into half of the page
_FITTING = 4


@dataclass(frozen=True)
class ArmPoint:
    """One value of one arm at one load; `text` is what a reader sees; value None with a reason where unknown."""

    load: str
    arm: str
    value: float | None
    text: str
    low: float | None = None
    high: float | None = None
    reason: str = ""


def point_figure(points: Sequence[ArmPoint], y: Mapping[str, Any], height: int = 320) -> Figure:
    """Points with whiskers: the loads side by side, the arms beside one another at each."""
    loads = list(dict.fromkeys(point.load for point in points))
    arms = [arm for arm in ARM_STYLE if any(point.arm == arm for point in points)]
    traces = [_trace(points, arm, loads, arms) for arm in arms]
    closed = all(parse_level(load).closed for load in loads)
    texts = [load.rpartition(" ")[2] if closed else load for load in loads]
    ticks = {"tickvals": list(range(len(loads))), "ticktext": texts, "range": [-0.6, len(loads) - 0.4], "tickangle": 0}
    x = axis("concurrent requests" if closed else "", showgrid=False, **ticks)
    return figure(traces, height, showlegend=True, hovermode="closest", xaxis=x, yaxis=dict(y))


def needs_room(points: Sequence[ArmPoint]) -> bool:
    """True when the loads' names do not fit side by side in half of the page."""
    loads = {point.load for point in points}
    return len(loads) > _FITTING and not all(parse_level(load).closed for load in loads)


def _trace(points: Sequence[ArmPoint], arm: str, loads: Sequence[str], arms: Sequence[str]) -> dict[str, Any]:
    mine = [point for point in points if point.arm == arm and point.value is not None]
    style = ARM_STYLE[arm]
    shift = _APART * (2 * arms.index(arm) - len(arms) + 1)
    values = [point.value or 0.0 for point in mine]
    highs = [value if point.high is None else point.high for point, value in zip(mine, values, strict=True)]
    lows = [value if point.low is None else point.low for point, value in zip(mine, values, strict=True)]
    return {
        "type": "scatter", "mode": "markers", "name": arm, "cliponaxis": False,
        "x": [loads.index(point.load) + shift for point in mine], "y": values,
        "marker": {
            "symbol": style["symbol"], "size": 12, "color": style["color"], "line": {"color": "@card", "width": 1.5},
        },
        "error_y": {
            "type": "data", "symmetric": False, "color": style["color"], "thickness": 2, "width": 5,
            "array": [high - value for high, value in zip(highs, values, strict=True)],
            "arrayminus": [value - low for low, value in zip(lows, values, strict=True)],
        },
        "hovertext": [f"{arm}, {point.load}<br>{point.text}" for point in mine], "hoverinfo": "text",
    }  # fmt: skip


def point_table(points: Sequence[ArmPoint], name: str) -> Table:
    """The same numbers as a table."""
    rows = tuple(
        (
            text_cell(point.load), text_cell(point.arm),
            text_cell(point.text) if point.value is not None else Cell("–", reason=point.reason or "not measured"),
        )
        for point in points
    )  # fmt: skip
    return Table(("Load", "Arm", name), rows, frozenset({1, 2}))
