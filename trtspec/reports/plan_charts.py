"""The charts of a plan's page: speed-up over concurrency, memory of each GPU, cost."""

from __future__ import annotations

from typing import Any

from trtspec.planning.forecast import Cell, Forecast
from trtspec.planning.plan import Plan
from trtspec.reports.charts import ARM_STYLE, Chart, absent, axis, figure, level_axis, unity
from trtspec.reports.formats import Table, number_text, text_cell
from trtspec.reports.plan_bars import SEGMENTS, segment_bytes
from trtspec.reports.plan_memory import alike, gpu_label
from trtspec.units import bytes_text

__all__ = ["cost_chart", "memory_chart", "speed_chart"]

_GIB = 1 << 30
_COLOURS = ("@speculative", "@baseline", "@good", "@bad", "@warn", "@muted")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_FILLS = ("@speculative", "@baseline", "@good", "@warn")
_PATTERNS = ("", "/", "x", ".")


def speed_chart(plan: Plan) -> Chart:
    """A line for each draft length, or without an acceptance the one that it would need; a rule at 1."""
    forecast = plan.forecast
    if forecast is None:
        return absent("speedup", "Speed-up", plan.reasons.get("speedup", "not planned"))
    given = forecast.acceptance is not None
    title = "Expected speed-up over concurrency" if given else "Acceptance rate that breaks even"
    levels = sorted(forecast.grid.concurrencies)
    traces = [_line(forecast, index, length, levels) for index, length in enumerate(forecast.grid.draft_lengths)]
    label = "speed-up (1 = no difference)" if given else "accepted share of drafted tokens"
    layout: dict[str, Any] = {"shapes": [unity("y")] if given else []}
    shown = figure(
        traces, 420, showlegend=True, hovermode="x unified", xaxis=level_axis(levels),
        yaxis=axis(label, rangemode="tozero", tickformat=".2~f" if given else ".0%"), **layout,
    )  # fmt: skip
    caption = f"{_basis(forecast)} Latency of a whole request, prompt included, baseline over speculative."
    return Chart("speedup", title, caption, {"": shown}, table=_grid_table(forecast, levels), height=420, wide=True)


def _basis(forecast: Forecast) -> str:
    acceptance = forecast.acceptance
    if acceptance is None:
        return "No acceptance is given, so none is assumed: what each draft length would need."
    return f"At {acceptance.rate:.0%} of {acceptance.draft_length} drafted tokens accepted ({acceptance.origin})."


def _value(cell: Cell, *, given: bool) -> float | None:
    if given:
        return cell.speedup
    return cell.break_even.rate if cell.break_even else None


def _line(forecast: Forecast, index: int, length: int, levels: list[int]) -> dict[str, Any]:
    given = forecast.acceptance is not None
    chosen = length == forecast.grid.chosen
    return {
        "type": "scatter", "mode": "lines+markers", "name": f"{length} drafted" + (" (spec)" if chosen else ""),
        "x": levels, "y": [_value(forecast.cell(level, length), given=given) for level in levels],
        "line": {
            "color": _COLOURS[index % len(_COLOURS)], "dash": _DASHES[index % len(_DASHES)],
            "width": 3.5 if chosen else 1.8,
        },
        "hovertemplate": "%{y:.2f}×" if given else "%{y:.0%}",
    }  # fmt: skip


def _grid_table(forecast: Forecast, levels: list[int]) -> Table:
    given = forecast.acceptance is not None
    rows = []
    for length in forecast.grid.draft_lengths:
        values = [_value(forecast.cell(level, length), given=given) for level in levels]
        texts = ["never" if value is None else f"{value:.2f}" if given else f"{value:.0%}" for value in values]
        rows.append((text_cell(length), *map(text_cell, texts)))
    return Table(("Draft length", *(f"concurrency {level}" for level in levels)), tuple(rows))


def memory_chart(plan: Plan) -> Chart:
    """A stacked bar for each kind of GPU of the speculative arm."""
    title = "Memory of each GPU"
    if plan.memory is None:
        return absent("memory", title, plan.reasons.get("memory", "not planned"))
    groups = alike(plan.memory.per_gpu)
    labels = [gpu_label(group) for group in groups]
    sizes = [segment_bytes(group[0]) for group in groups]
    traces = [
        {
            "type": "bar", "orientation": "h", "name": segment.name, "y": labels,
            "x": [row[index] / _GIB for row in sizes],
            "marker": {"color": _FILLS[index], "pattern": {"shape": _PATTERNS[index]}},
            "hovertemplate": "%{x:.2f} GiB",
        }
        for index, segment in enumerate(SEGMENTS)
    ]  # fmt: skip
    total = plan.memory.per_gpu[0].total
    shapes = [] if total is None else [_end_of_gpu(total)]
    height = 130 + 46 * len(groups)
    shown = figure(
        traces, height, showlegend=True, barmode="stack", hovermode="y unified", shapes=shapes,
        xaxis=axis("GiB", rangemode="tozero"), yaxis=axis("", autorange="reversed"),
    )  # fmt: skip
    caption = "The speculative arm: draft and target with all that they need. The dotted line is the GPU's end."
    rows = tuple(
        (text_cell(label), *(text_cell(bytes_text(size)) for size in row), text_cell(_free(group[0].free)))
        for label, row, group in zip(labels, sizes, groups, strict=True)
    )
    table = Table(("GPU", *(segment.name for segment in SEGMENTS), "free"), rows)
    return Chart("memory", title, caption, {"": shown}, table=table, height=height, wide=True)


def _end_of_gpu(total: int) -> dict[str, Any]:
    line = {"color": "@ink", "width": 1.5, "dash": "dot"}
    end = total / _GIB
    return {"type": "line", "x0": end, "x1": end, "yref": "y domain", "y0": 0, "y1": 1, "line": line}


def _free(size: int | None) -> str:
    return "?" if size is None else bytes_text(size)


def cost_chart(plan: Plan) -> Chart:
    """Cost of a million output tokens of both arms over concurrency."""
    title = "Cost of a million output tokens"
    rows = [row for row in plan.cost_rows if row.per_million_output is not None]
    if not rows:
        reason = "No price: hardware.price_per_hour or --price." if plan.cost_rows else plan.reasons.get("cost", "")
        return absent("cost", title, reason)
    levels = sorted({row.concurrency for row in rows})
    traces = []
    for arm, style in ARM_STYLE.items():
        mine = {row.concurrency: row.per_million_output for row in rows if row.arm == arm}
        if mine:
            traces.append({
                "type": "scatter", "mode": "lines+markers", "name": arm, "x": list(mine), "y": list(mine.values()),
                "line": {"color": style["color"], "dash": style["dash"], "width": 2.5},
                "marker": {"symbol": style["symbol"], "size": 8, "color": style["color"]},
                "hovertemplate": "%{y:.4~g}",
            })  # fmt: skip
    shown = figure(
        traces, 340, showlegend=True, hovermode="x unified", xaxis=level_axis(levels),
        yaxis=axis("your currency for a million tokens", rangemode="tozero"),
    )  # fmt: skip
    table_rows = tuple(
        (text_cell(row.arm), text_cell(row.concurrency), text_cell(number_text(row.per_million_output or 0.0)),
         text_cell(number_text(row.tokens_per_second)), text_cell("yes" if row.fits else "no"))
        for row in rows
    )  # fmt: skip
    table = Table(("Arm", "concurrency", "a million output", "tokens/s", "fits"), table_rows)
    caption = f"At {plan.prices.gpu_hour:g} a GPU and hour; each arm pays for every GPU that it occupies."
    return Chart("cost", title, caption, {"": shown}, table=table, wide=True)
