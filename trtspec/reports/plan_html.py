"""A plan as one HTML page that needs no network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trtspec import __version__
from trtspec.errors import UsageError
from trtspec.files import write_text
from trtspec.planning.forecast import ADVICE
from trtspec.planning.plan import Plan
from trtspec.reports.formats import Cell, Table, text_cell
from trtspec.reports.page import asset, environment, plotly_data
from trtspec.reports.plan_charts import cost_chart, memory_chart, speed_chart
from trtspec.units import bytes_text

__all__ = ["render_plan_html", "write_plan_html"]


@dataclass(frozen=True)
class Block:
    """A table with a heading and a line of text."""

    title: str
    lead: str
    table: Table


def write_plan_html(plan: Plan, path: Path) -> None:
    """Write the page; UsageError when it cannot be written there."""
    try:
        write_text(path, render_plan_html(plan))
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror or error}", where=str(path), fix="--html FILE") from None


def render_plan_html(plan: Plan) -> str:
    """The whole page; the same plan gives the same bytes."""
    charts = [speed_chart(plan), memory_chart(plan), cost_chart(plan)]
    spec = plan.spec_file.spec
    subtitle = [spec.name, spec.runtime]
    if plan.gpu is not None and plan.memory is not None:
        subtitle.append(f"{plan.memory.inputs.count} × {plan.gpu.name}")
    return str(
        environment()
        .get_template("plan.html.j2")
        .render(
            title=f"Plan of {spec.name}",
            subtitle=subtitle,
            verdict=plan.verdict,
            findings=[finding for finding in plan.findings if finding.level != "note"],
            lead=_lead(plan),
            charts=charts,
            tables=_blocks(plan),
            figures={chart.id: chart.variants for chart in charts if chart.variants},
            version=__version__,
            css=asset("report.css"),
            js=asset("report.js"),
            plotly=plotly_data(),
        )
    )


def _lead(plan: Plan) -> str:
    if plan.forecast is None:
        return plan.reasons.get("speedup", "")
    return plan.forecast.reason or f"A forecast from a roofline; {ADVICE}"


def _blocks(plan: Plan) -> list[Block]:
    blocks = []
    if plan.memory is not None:
        rows = tuple(
            (text_cell(str(gpu.gpu)), text_cell(item.role), text_cell(item.name), text_cell(bytes_text(item.bytes)),
             text_cell(item.formula))
            for gpu in plan.memory.per_gpu
            for item in gpu.items
        )  # fmt: skip
        table = Table(("GPU", "role", "what", "size", "formula"), rows, frozenset({1, 2, 4}))
        blocks.append(Block("Memory", "Every item with its formula.", table))
    if plan.forecast is not None:
        blocks.append(_assumptions(plan))
    blocks.append(_values(plan))
    return blocks


def _assumptions(plan: Plan) -> Block:
    assert plan.forecast is not None
    data = plan.forecast.model.machine.assumptions.to_json()
    rows = tuple(
        (text_cell(name), text_cell(f"{row['value']:g} {row['unit']}"), text_cell(row["origin"]), text_cell(row["why"]))
        for name, row in data.items()
    )
    table = Table(("name", "value", "origin", "what"), rows, frozenset({2, 3}))
    return Block("Assumptions", "Change one with --assume NAME=VALUE.", table)


def _values(plan: Plan) -> Block:
    rows: list[tuple[Cell, ...]] = []
    for key, row in plan.values.items():
        if row["origin"] != "default" or row["value"] is not None:
            rows.append(tuple(map(text_cell, (key, row["value"], row["origin"], row.get("why") or ""))))
    table = Table(("key", "value", "origin", "why"), tuple(rows), frozenset({1, 2, 3}))
    return Block("Values", "Given in the spec, a default, or derived.", table)
