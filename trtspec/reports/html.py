"""The report as one HTML file that needs no network."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from trtspec import __version__
from trtspec.reports.acceptance_charts import position_chart, rounds_chart, scatter_chart
from trtspec.reports.charts import Chart
from trtspec.reports.data import ReportData
from trtspec.reports.load_charts import levels_chart, throughput_chart
from trtspec.reports.names import definitions
from trtspec.reports.speed_charts import category_chart, latency_chart
from trtspec.reports.view import build_view

__all__ = ["REPORT_SCHEMA", "charts_of", "render_html"]

REPORT_SCHEMA = 1
_TEMPLATES = Path(__file__).parent / "templates"


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
        _environment()
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
            css=_asset("report.css"),
            js=_asset("report.js"),
            plotly_js=_plotly_js(),
        )
    )


@cache
def _environment() -> Any:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _asset(name: str) -> Any:
    """A file of ours that goes into the page as it is."""
    from markupsafe import Markup

    return Markup((_TEMPLATES / name).read_text(encoding="utf-8"))  # noqa: S704 - our own style sheet and script


def _plotly_js() -> Any:
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    return Markup(get_plotlyjs().replace("</script", "<\\/script"))  # noqa: S704 - plotly's own bundle
