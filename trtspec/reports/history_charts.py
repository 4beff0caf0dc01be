"""Figures over several runs: speed-up, acceptance, throughput and latency of both arms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    unity,
)
from trtspec.reports.formats import Cell, Table, number_text, percent_text, ratio_text, text_cell
from trtspec.reports.history import History, PastRun
from trtspec.reports.names import metric_name

__all__ = ["history_charts"]

_LATENCIES = ("time_to_first_token", "time_per_output_token", "request_latency")
_HEIGHT = 340


def history_charts(history: History) -> list[Chart]:
    """Every chart of a history."""
    return [_speedups(history), _throughput(history), _latency(history), _acceptance(history)]


def _control(history: History, known: Sequence[str]) -> Control:
    return Control("level", "Load", tuple(Choice(load, load) for load in history.loads if load in known))


def _axis(runs: Sequence[PastRun]) -> dict[str, Any]:
    """The runs side by side: they are far apart in time, and only their order matters."""
    names = [f"{safe(run.moment[5:])}" for run in runs]
    return axis("run", tickvals=list(range(len(runs))), ticktext=names, range=[-0.5, len(runs) - 0.5])


def _speedups(history: History) -> Chart:
    title = "Speed-up over the runs"
    known = {load: [(i, found) for i, run in enumerate(history.runs) if (found := run.speedup(load)) is not None]
             for load in history.loads}  # fmt: skip
    known = {load: found for load, found in known.items() if found}
    if not known:
        return absent("speedup", title, "No run has a speed-up.")
    variants = {}
    for load, points in known.items():
        line = {
            "type": "scatter", "mode": "lines+markers", "cliponaxis": False,
            "x": [place for place, _ in points], "y": [found.estimate for _, found in points],
            "line": {"color": "@speculative", "width": 2.5}, "marker": {"size": 10, "color": "@speculative"},
            "error_y": {
                "type": "data", "symmetric": False, "color": "@speculative", "thickness": 1.5, "width": 5,
                "array": [found.ends[1] - found.estimate for _, found in points],
                "arrayminus": [found.estimate - found.ends[0] for _, found in points],
            },
            "hovertext": [f"{safe(history.runs[place].name)}<br>{found.text}" for place, found in points],
            "hoverinfo": "text",
        }  # fmt: skip
        variants[load] = figure(
            [line], _HEIGHT, hovermode="closest", shapes=[unity("y")], xaxis=_axis(history.runs),
            yaxis=axis("speed-up (1 = no difference)", tickformat=".2~f"),
        )  # fmt: skip
    rows = tuple(
        (
            text_cell(load),
            text_cell(history.runs[place].name),
            text_cell(ratio_text(found.estimate)),
            text_cell(found.range_text),
        )
        for load, points in known.items()
        for place, found in points
    )
    table = Table(("Load", "Run", "Speed-up", "Interval"), rows, frozenset({1, 3}))
    caption = "The headline speed-up of each run with its interval, the oldest on the left."
    return Chart("speedup", title, caption, variants, (_control(history, list(known)),), table, height=_HEIGHT)


# the value of a run at a load in an arm, None where it has none
Value = Callable[[PastRun, str, str], "float | None"]


def _throughput(history: History) -> Chart:
    def value(run: PastRun, load: str, arm: str) -> float | None:
        level = run.level(load)
        return None if level is None else level.part.throughput(arm)

    known = _known(history, value)
    if not known:
        return absent("throughput", "Throughput over the runs", "No run counts tokens.")
    variants = {load: _arms(history, value, load, "output tokens per second", "%{y:.4~g} tokens/s") for load in known}
    caption = "Output tokens per second of all requests together. Where the baseline moves, the setup changed."
    table = _arm_table(history, {"tokens/s": value}, known)
    return Chart("throughput", "Throughput over the runs", caption, variants, (_control(history, known),), table)


def _known(history: History, value: Value) -> list[str]:
    arms = list(ARM_STYLE)
    return [
        load for load in history.loads if any(value(run, load, arm) is not None for run in history.runs for arm in arms)
    ]


def _arms(history: History, value: Value, load: str, label: str, template: str) -> Figure:
    traces = [_arm(history, value, load, arm, template) for arm in ARM_STYLE]
    return figure(
        [trace for trace in traces if trace["x"]], _HEIGHT, showlegend=True, hovermode="x unified",
        xaxis=_axis(history.runs), yaxis=axis(label, rangemode="tozero"),
    )  # fmt: skip


def _arm(history: History, value: Value, load: str, arm: str, template: str) -> Figure:
    found = [(place, value(run, load, arm)) for place, run in enumerate(history.runs)]
    known = [(place, number) for place, number in found if number is not None]
    style = ARM_STYLE[arm]
    return {
        "type": "scatter", "mode": "lines+markers", "name": arm,
        "x": [place for place, _ in known], "y": [number for _, number in known],
        "line": {"color": style["color"], "width": 2.5, "dash": style["dash"]},
        "marker": {"symbol": style["symbol"], "size": 9, "color": style["color"]}, "hovertemplate": template,
    }  # fmt: skip


def _latency(history: History) -> Chart:
    title = "Latency over the runs"
    values = {name: _median(name) for name in _LATENCIES}
    known = _known(history, values["request_latency"])
    if not known:
        return absent("latency", title, "No request succeeded in any run.")
    variants = {
        f"{name}|{load}": _arms(history, value, load, f"{metric_name(name).lower()} in ms", "%{y:.4~g} ms")
        for name, value in values.items()
        for load in known
    }
    names = Control("metric", "Show", tuple(Choice(name, metric_name(name)) for name in _LATENCIES))
    table = _arm_table(history, {f"{metric_name(name)}, ms": value for name, value in values.items()}, known)
    return Chart("latency", title, "Medians.", variants, (names, _control(history, known)), table)


def _median(name: str) -> Value:
    def value(run: PastRun, load: str, arm: str) -> float | None:
        level = run.level(load)
        found = None if level is None else level.part.metric(arm, name).get("p50")
        return None if found is None else 1000 * float(found)

    return value


def _arm_table(history: History, values: Mapping[str, Value], loads: Sequence[str]) -> Table:
    rows = []
    for load in loads:
        for run in history.runs:
            for arm in run.data.arms:
                cells = [_cell(value(run, load, arm)) for value in values.values()]
                rows.append((text_cell(load), text_cell(run.name), text_cell(arm), *cells))
    return Table(("Load", "Run", "Arm", *values), tuple(rows), frozenset({1, 2}))


def _cell(value: float | None) -> Cell:
    return Cell("–", reason="not measured in this run") if value is None else text_cell(number_text(value))


def _acceptance(history: History) -> Chart:
    title = "Acceptance over the runs"
    found = [(place, run.data.acceptance.get("acceptance_rate")) for place, run in enumerate(history.runs)]
    known = [(place, float(rate)) for place, rate in found if rate is not None]
    if not known:
        return absent("acceptance", title, "No run has counters of drafted and accepted tokens.")
    line = {
        "type": "scatter", "mode": "lines+markers", "x": [p for p, _ in known], "y": [100 * r for _, r in known],
        "line": {"color": "@speculative", "width": 2.5}, "marker": {"size": 10, "color": "@speculative"},
        "hovertext": [f"{safe(history.runs[p].name)}<br>{percent_text(r)} accepted" for p, r in known],
        "hoverinfo": "text",
    }  # fmt: skip
    shown = figure([line], _HEIGHT, xaxis=_axis(history.runs), yaxis=share_axis("drafted tokens accepted"))
    rows = tuple((text_cell(history.runs[p].name), text_cell(percent_text(r))) for p, r in known)
    return Chart(
        "acceptance", title, "Pooled over all tokens of a run.", {"": shown}, table=Table(("Run", "Accepted"), rows)
    )
