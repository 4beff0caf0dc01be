"""A search for the draft length as one HTML page that needs no network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trtspec import __version__
from trtspec.reports.page import asset, environment, plotly_data
from trtspec.reports.tuning_charts import confirmation_chart, heat_chart, pareto_chart
from trtspec.units import duration_text

__all__ = ["render_tuning_html"]


def render_tuning_html(data: Mapping[str, Any]) -> str:
    """The whole page of a tuning.json; the same data give the same bytes."""
    charts = [heat_chart(data), pareto_chart(data), confirmation_chart(data)]
    return str(
        environment()
        .get_template("tuning.html.j2")
        .render(
            title="trtspec: draft length",
            subtitle=_subtitle(data),
            verdict=data["verdict"],
            values=_values(data),
            notes=data["warnings"],
            charts=charts,
            figures={chart.id: chart.variants for chart in charts if chart.variants},
            version=__version__,
            css=asset("report.css"),
            js=asset("report.js"),
            plotly=plotly_data(),
        )
    )


def _subtitle(data: Mapping[str, Any]) -> list[str]:
    seconds = data["seconds"]
    rungs = f"{data['rungs']} rung{'s' * (data['rungs'] != 1)}"
    cells = f"{len(data['candidates'])} candidates at {len(data['levels'])} loads"
    return [cells, rungs, f"{duration_text(seconds['spent'])} of measuring"]


def _values(data: Mapping[str, Any]) -> str:
    import yaml

    values = data["recommendation"]["values"]
    if not values:
        return ""
    shown = dict(values)
    if "schedule" in shown:  # JSON has no numbers as keys
        shown["schedule"] = {int(bound): length for bound, length in shown["schedule"].items()}
    return str(yaml.safe_dump({"speculation": shown}, sort_keys=False)).rstrip()
