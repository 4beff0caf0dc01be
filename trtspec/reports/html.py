"""The report as one HTML file that needs no network."""

from __future__ import annotations

from trtspec import __version__
from trtspec.reports.acceptance_charts import position_chart, rounds_chart, scatter_chart
from trtspec.reports.charts import Chart
from trtspec.reports.data import ReportData
from trtspec.reports.load_charts import levels_chart, throughput_chart
from trtspec.reports.names import definitions
from trtspec.reports.page import asset, environment, plotly_js
from trtspec.reports.speed_charts import category_chart, latency_chart
from trtspec.reports.view import build_view

__all__ = ["REPORT_SCHEMA", "charts_of", "render_html"]

REPORT_SCHEMA = 1


def charts_of(data: ReportData) -> dict[str, Chart]:
    """Every chart of the report by its id."""
    makers = (
        category_chart,
        latency_chart,
        position_chart,
        rounds_chart,
        scatter_chart,
        throughput_chart,
        levels_chart,
    )
    charts = [make(data) for make in makers]
    return {chart.id: chart for chart in charts}


def render_html(data: ReportData) -> str:
    """The whole page; the same data give the same bytes."""
    charts = charts_of(data)
    return str(
        environment()
        .get_template("report.html.j2")
        .render(
            view=build_view(data),
            charts=charts,
            definitions=definitions(),
            method=data.comparison.get("method") or "",
            summary=data.summary,
            figures={name: chart.variants for name, chart in charts.items() if chart.variants},
            version=__version__,
            schema=REPORT_SCHEMA,
            css=asset("report.css"),
            js=asset("report.js"),
            plotly_js=plotly_js(),
        )
    )
