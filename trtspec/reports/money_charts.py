"""What speculation is worth: capacity at the service levels, and cost per million tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trtspec.reports.arm_points import ArmPoint, point_figure, point_table
from trtspec.reports.charts import Chart, Choice, Control, Figure, absent, axis, figure, load_axis, share_axis
from trtspec.reports.data import ReportData
from trtspec.reports.formats import Cell, Table, number_text, percent_text, ratio_text, text_cell
from trtspec.reports.levels import Level
from trtspec.reports.load_charts import kind_controls, kind_name, line_trace
from trtspec.reports.reading import interval_of
from trtspec.reports.service_charts import slo_text
from trtspec.reports.speed_charts import Row, forest

__all__ = ["capacity_chart", "capacity_text", "cost_chart"]

_ARMS = ("baseline", "speculative")


def capacity_chart(data: ReportData) -> Chart:
    """Share of requests within the service levels at each load, and the capacity that follows."""
    title = "Capacity at the service levels"
    section = data.comparison.get("capacity") or {}
    ladders: Mapping[str, Any] = section.get("ladders") or {}
    if not ladders:
        reason = section.get("reason") or "no service levels were given"
        return absent("capacity", title, f"Unknown: {reason}.")
    wanted = float(section.get("share") or 0.9)
    variants = {kind: _ladder(data, ladder, wanted) for kind, ladder in ladders.items()}
    controls = kind_controls(list(ladders))
    rule = f"{percent_text(wanted)} of the requests are within every level ({slo_text(section.get('slo'))})"
    caption = " ".join([f"A load is carried when {rule}.", *capacity_text(data)])
    shown = variants if controls else {"": next(iter(variants.values()))}
    return Chart("capacity", title, caption, shown, controls, _ladder_table(ladders), height=320)


def capacity_text(data: ReportData) -> list[str]:
    """Each ladder's capacities and their ratio in a sentence."""
    section = data.comparison.get("capacity") or {}
    return [text for kind, ladder in (section.get("ladders") or {}).items() if (text := _capacity_words(kind, ladder))]


def _capacity_words(kind: str, ladder: Mapping[str, Any]) -> str:
    name = kind_name(kind)
    tops = {arm: ladder.get(arm) or {} for arm in _ARMS}
    if any(top.get("requests_per_second") is None for top in tops.values()):
        reasons = dict.fromkeys(str(top["reason"]) for top in tops.values() if top.get("reason"))
        return f"{name.capitalize()}: unknown, {'; '.join(reasons)}." if reasons else ""
    words = [
        f"{arm} {'at least ' if top.get('beyond') else ''}{number_text(top['requests_per_second'])}"
        for arm, top in tops.items()
    ]
    ratio = ladder.get("ratio")
    gain = f", {ratio_text(ratio)}" if ratio and not ladder.get("ratio_is_bound") else ""
    return f"{name.capitalize()}, requests per second: {' and '.join(words)}{gain}."


def _ladder(data: ReportData, ladder: Mapping[str, Any], wanted: float) -> Figure:
    labels = [step["load"] for arm in _ARMS for step in (ladder.get(arm) or {}).get("steps") or ()]
    levels: list[Level] = [level for level in data.levels if level.label in labels]
    traces = [trace for arm in data.arms if (trace := _steps(arm, (ladder.get(arm) or {}).get("steps") or ()))]
    line = {"color": "@ink", "width": 1.5, "dash": "dot"}
    goal = {"type": "line", "xref": "x domain", "x0": 0, "x1": 1, "y0": 100 * wanted, "y1": 100 * wanted, "line": line}
    return figure(
        traces, 320, showlegend=True, hovermode="x unified", shapes=[{**goal, "layer": "below"}],
        xaxis=load_axis(levels) if levels else axis("load"), yaxis=share_axis("requests within every level"),
    )  # fmt: skip


def _steps(arm: str, steps: Sequence[Mapping[str, Any]]) -> Figure | None:
    known = [(step["value"], step["met"]) for step in steps if (step.get("met") or {}).get("share") is not None]
    if not known:
        return None
    trace = line_trace(arm, [(at, 100 * met["share"]) for at, met in known], "%{y:.1f} %")
    ups = [100 * ((met.get("high") or met["share"]) - met["share"]) for _, met in known]
    downs = [100 * (met["share"] - _or(met.get("low"), met["share"])) for _, met in known]
    whiskers = {"type": "data", "symmetric": False, "array": ups, "arrayminus": downs, "thickness": 1.3, "width": 4}
    return {**trace, "error_y": {**whiskers, "color": trace["line"]["color"]}}


def _or(value: float | None, other: float) -> float:
    return other if value is None else value


def _ladder_table(ladders: Mapping[str, Any]) -> Table:
    rows = []
    for ladder in ladders.values():
        for arm in _ARMS:
            for step in (ladder.get(arm) or {}).get("steps") or ():
                met = step.get("met") or {}
                rate, share = step.get("requests_per_second"), met.get("share")
                rows.append((
                    text_cell(step["load"]), text_cell(arm),
                    Cell("–", reason="not measured") if rate is None else text_cell(number_text(rate)),
                    Cell("–", reason="cannot be judged") if share is None else text_cell(percent_text(share)),
                ))  # fmt: skip
    return Table(("Load", "Arm", "Requests/s", "Within every level"), tuple(rows), frozenset({1}))


def cost_chart(data: ReportData) -> Chart:
    """Cost of a million output tokens in both arms; their ratio where no price is known."""
    title = "Cost per million output tokens"
    section = data.comparison.get("cost") or {}
    by_load: Mapping[str, Any] = section.get("by_load") or {}
    rows = [(level.label, by_load[level.label]) for level in data.levels if level.label in by_load]
    points = [_cost(load, arm, row.get(arm) or {}) for load, row in rows for arm in data.arms]
    ratios: list[Row] = [(load, found, False) for load, row in rows if (found := interval_of(row.get("ratio")))]
    priced = any(point.value is not None for point in points)
    if not priced and not ratios:
        return absent("cost", title, f"Unknown: {section.get('reason') or 'the run does not tell its cost'}.")
    height = max(300, 110 + 38 * len(ratios))
    variants = {}
    if priced:
        variants["cost"] = point_figure(points, axis("per million output tokens", rangemode="tozero"), height)
    if ratios:
        variants["ratio"] = forest(ratios, height, "cost, speculative over baseline (1 = the same)")
    names = {"cost": "cost", "ratio": "ratio of the arms"}
    choices = tuple(Choice(name, names[name]) for name in variants)
    caption = _cost_caption(section, priced=priced)
    table = _cost_table(rows, points, data)
    return Chart("cost", title, caption, variants, (Control("view", "Show", choices),), table, height=height)


def _cost_caption(section: Mapping[str, Any], *, priced: bool) -> str:
    gpus = section.get("gpus") or {}
    counted = " and ".join(f"{count} for {arm}" for arm, count in gpus.items()) or "not told"
    price = section.get("price_per_gpu_hour")
    told = (
        f"{price:g} a GPU hour" if priced and price else f"{section.get('reason') or 'no price'}; the ratio needs none"
    )
    return f"GPUs, the draft's included: {counted}. Price: {told}. Lower is better."


def _cost(load: str, arm: str, row: Mapping[str, Any]) -> ArmPoint:
    found = interval_of(row)
    if found is None:
        return ArmPoint(load, arm, None, "", reason=str(row.get("reason") or "not known"))
    bounds = "" if found.low is None or found.high is None else f" ({found.low:.3g} to {found.high:.3g})"
    return ArmPoint(load, arm, found.estimate, f"{found.estimate:.3g}{bounds}", found.low, found.high)


def _cost_table(rows: Sequence[tuple[str, Any]], points: Sequence[ArmPoint], data: ReportData) -> Table:
    costs = {(point.load, point.arm): row[-1] for point, row in zip(points, point_table(points, "").rows, strict=True)}
    lines = []
    for load, row in rows:
        found = interval_of(row.get("ratio"))
        ratio = Cell("–", reason="not known") if found is None else text_cell(f"{ratio_text(found.estimate)}")
        spread = text_cell("" if found is None else found.range_text)
        lines.append((text_cell(load), *(costs[load, arm] for arm in data.arms), ratio, spread))
    return Table(("Load", *data.arms, "Ratio", "Interval of the ratio"), tuple(lines), frozenset({len(data.arms) + 2}))
