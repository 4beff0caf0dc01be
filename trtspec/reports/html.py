"""The report as one HTML file that needs no network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trtspec import __version__
from trtspec.reports.acceptance_charts import position_chart, rounds_chart, scatter_chart
from trtspec.reports.charts import Chart
from trtspec.reports.data import ReportData
from trtspec.reports.load_charts import latency_load_chart, levels_chart, throughput_chart
from trtspec.reports.money_charts import capacity_chart, cost_chart
from trtspec.reports.names import definitions
from trtspec.reports.origin_charts import origin_chart
from trtspec.reports.page import asset, environment, plotly_data
from trtspec.reports.position_chart import output_position_chart
from trtspec.reports.run_charts import start_chart, timeline_chart
from trtspec.reports.server_charts import energy_chart, first_token_chart, telemetry_chart
from trtspec.reports.service_charts import goodput_chart, underrun_chart
from trtspec.reports.speed_charts import category_chart, latency_chart, metric_chart
from trtspec.reports.view import build_view

__all__ = ["REPORT_SCHEMA", "charts_of", "render_html"]

REPORT_SCHEMA = 2

# section → its charts; those after the bar are listed in words where a run has nothing for them
_MAKERS: dict[str, tuple[tuple[Callable[[ReportData], Chart], ...], tuple[Callable[[ReportData], Chart], ...]]] = {
    "speed": ((category_chart, latency_chart), (metric_chart, origin_chart)),
    "acceptance": ((position_chart, rounds_chart, scatter_chart), (output_position_chart,)),
    "load": (
        (throughput_chart, levels_chart),
        (latency_load_chart, goodput_chart, capacity_chart, cost_chart, underrun_chart),
    ),
    "server": ((), (first_token_chart, energy_chart, telemetry_chart)),
    "run": ((), (timeline_chart, start_chart)),
}


@dataclass(frozen=True)
class Section:
    """The cards of a section, and the charts that this run has nothing for."""

    cards: tuple[Chart, ...]
    missing: tuple[Chart, ...]


def sections_of(data: ReportData) -> dict[str, Section]:
    """Every section's charts."""
    found = {}
    for name, (always, where_known) in _MAKERS.items():
        extra = [make(data) for make in where_known]
        cards = [*(make(data) for make in always), *(chart for chart in extra if not chart.absent)]
        found[name] = Section(tuple(cards), tuple(chart for chart in extra if chart.absent))
    return found


def charts_of(data: ReportData) -> dict[str, Chart]:
    """Every chart of the report by its id."""
    return {chart.id: chart for section in sections_of(data).values() for chart in (*section.cards, *section.missing)}


def render_html(data: ReportData) -> str:
    """The whole page; the same data give the same bytes."""
    sections = sections_of(data)
    cards = [chart for section in sections.values() for chart in section.cards]
    return str(
        environment()
        .get_template("report.html.j2")
        .render(
            view=build_view(data),
            sections=sections,
            definitions=definitions(),
            method=data.comparison.get("method") or "",
            summary=data.summary,
            figures={chart.id: chart.variants for chart in cards if chart.variants},
            version=__version__,
            schema=REPORT_SCHEMA,
            css=asset("report.css"),
            js=asset("report.js"),
            plotly=plotly_data(),
        )
    )
