"""A chart of the report: its figure variants as plain plotly data, its words, its table, or why there is none.

Colours are names with an @ ("@speculative"): the page resolves them from its style sheet, so that one figure serves
light, dark and print.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from trtspec.reports.formats import Table
from trtspec.reports.levels import Level

__all__ = [
    "ARM_STYLE",
    "Chart",
    "Choice",
    "Control",
    "Figure",
    "absent",
    "axis",
    "figure",
    "legend",
    "level_axis",
    "level_control",
    "level_place",
    "load_axis",
    "log_scale",
    "safe",
    "share_axis",
    "short",
    "unity",
]

Figure = dict[str, Any]

# colour, marker and dash of an arm, the same everywhere; the dash and the marker carry it without colour
ARM_STYLE: Mapping[str, Mapping[str, str]] = {
    "baseline": {"color": "@baseline", "band": "@baseline-band", "symbol": "square", "dash": "dash"},
    "speculative": {"color": "@speculative", "band": "@speculative-band", "symbol": "circle", "dash": "solid"},
}
_CLEAR = "rgba(0,0,0,0)"


@dataclass(frozen=True)
class Choice:
    """One value of a control."""

    value: str
    label: str


@dataclass(frozen=True)
class Control:
    """A question whose answer picks the figure variant."""

    id: str
    label: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True)
class Chart:
    """One card of the report.

    `variants` are figures by the values of the controls, joined by |; a chart without controls has one, named "".
    """

    id: str
    title: str
    caption: str
    variants: Mapping[str, Figure] = field(default_factory=dict)
    controls: tuple[Control, ...] = ()
    table: Table = field(default_factory=lambda: Table((), ()))
    warnings: tuple[str, ...] = ()
    absent: str = ""
    height: int = 340
    wide: bool = False


def absent(chart_id: str, title: str, reason: str) -> Chart:
    """A card that says in words why there is no chart."""
    return Chart(chart_id, title, "", absent=reason)


def safe(text: str) -> str:
    """`text` for a place where plotly would read markup: names of prompts and categories come from outside."""
    return escape(text, quote=False)


def short(text: str, length: int = 22) -> str:
    """`text`, cut to `length` characters with an ellipsis."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def axis(title: str, **more: Any) -> dict[str, Any]:
    """A plotly axis in the report's style."""
    return {
        "title": {"text": title, "standoff": 12, "font": {"size": 13, "color": "@muted"}},
        "gridcolor": "@grid",
        "linecolor": "@line",
        "tickfont": {"color": "@muted", "size": 12},
        "zeroline": False,
        "automargin": True,
        **more,
    }


def share_axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis from 0 to 100 %."""
    ticks = [0, 25, 50, 75, 100]
    return axis(title, **{"range": [0, 103], "tickvals": ticks, "ticktext": [f"{tick} %" for tick in ticks], **more})


def level_axis(levels: Sequence[int]) -> dict[str, Any]:
    """The concurrency axis: the measured levels as ticks, logarithmic when they span much."""
    ticks = {"tickvals": list(levels), "ticktext": [str(level) for level in levels]}
    return axis("concurrent requests", **ticks, **log_scale(levels))


def load_axis(levels: Sequence[Level]) -> dict[str, Any]:
    """The axis of load levels of one kind. Those without a number (a trace, steps) stand side by side."""
    values = [level.value for level in levels if level.value]
    if len(values) < len(levels):
        return axis("load", type="category")
    if levels[0].closed:
        return level_axis([int(value) for value in values])
    ticks = {"tickvals": values, "ticktext": [f"{value:g}" for value in values]}
    return axis(f"requests per second offered ({levels[0].load.kind})", **ticks, **log_scale(values))


def log_scale(values: Sequence[float]) -> dict[str, Any]:
    """A logarithmic axis where the values span much."""
    return {"type": "log"} if max(values) >= 8 * min(values) else {}


def level_place(level: Level) -> float | str:
    """Where a level stands on its axis."""
    return level.label if not level.value else level.value


def level_control(levels: Sequence[Level], extra: Sequence[Choice] = ()) -> Control:
    """The choice of a load level."""
    closed = all(level.closed for level in levels)
    choices = tuple(Choice(level.label, level.short if closed else level.label) for level in levels)
    return Control("level", "Concurrency" if closed else "Load", (*choices, *extra))


def unity(orientation: str) -> dict[str, Any]:
    """The dashed line at a speed-up of 1: "x" stands on the x axis, "y" on the y axis."""
    across = "y" if orientation == "x" else "x"
    line = {"color": "@ink", "width": 1.5, "dash": "dot"}
    shape = {"type": "line", f"{across}ref": f"{across} domain", f"{across}0": 0, f"{across}1": 1, "line": line}
    return {**shape, f"{orientation}ref": orientation, f"{orientation}0": 1, f"{orientation}1": 1, "layer": "below"}


def legend() -> dict[str, Any]:
    """A legend above the drawing."""
    return {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"color": "@muted"}}


def figure(data: Sequence[Mapping[str, Any]], height: int, **layout: Any) -> Figure:
    """A plotly figure of plain dictionaries in the report's style."""
    base = {
        "height": height,
        "margin": {"l": 56, "r": 20, "t": 34 if layout.get("showlegend") else 16, "b": 48},
        "paper_bgcolor": _CLEAR,
        "plot_bgcolor": _CLEAR,
        "font": {"color": "@ink", "size": 13, "family": "system-ui, -apple-system, Segoe UI, Roboto, sans-serif"},
        "hoverlabel": {
            "bgcolor": "@card",
            "bordercolor": "@line",
            "font": {"color": "@ink", "size": 13},
            "align": "left",
        },
        "legend": legend(),
        "showlegend": False,
        "dragmode": False,
    }
    return {"data": [dict(trace) for trace in data], "layout": {**base, **layout}}
