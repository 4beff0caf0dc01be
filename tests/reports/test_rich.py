"""A run that carries everything: open loops, service levels, telemetry, stamps, cold start, self-report."""

from __future__ import annotations

import json

import pytest

from tests.reports.page import Page, read_page
from tests.reports.rich import rich_run
from trtspec.reports import ReportData, load_report, open_run
from trtspec.reports.charts import Chart
from trtspec.reports.html import charts_of, render_html, sections_of
from trtspec.reports.reading import Interval


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    return load_report(open_run(rich_run(tmp_path_factory.mktemp("runs") / "rich")))


@pytest.fixture(scope="module")
def charts(data: ReportData) -> dict[str, Chart]:
    return charts_of(data)


@pytest.fixture(scope="module")
def page(data: ReportData) -> Page:
    return read_page(render_html(data))


def test_every_chart_is_drawn(data: ReportData, charts: dict[str, Chart]) -> None:
    assert [chart.id for chart in charts.values() if chart.absent] == []
    assert all(not section.missing for section in sections_of(data).values())


def test_every_variant_is_what_plotly_accepts(charts: dict[str, Chart]) -> None:
    import plotly.graph_objects as go

    def resolved(value: object) -> object:
        if isinstance(value, dict):
            return {key: resolved(item) for key, item in value.items()}
        if isinstance(value, list):
            return [resolved(item) for item in value]
        return "#123456" if isinstance(value, str) and value.startswith("@") else value

    for chart in charts.values():
        for variant in chart.variants.values():
            go.Figure(resolved(variant))


def test_colours_are_those_of_the_style_sheet(data: ReportData, charts: dict[str, Chart]) -> None:
    text = json.dumps([chart.variants for chart in charts.values()])
    css = read_page(render_html(data)).one("style").text
    names = {word.split('"')[0] for word in text.split('"@')[1:]}
    assert {"speculative", "baseline", "part-1", "band"} <= names
    for name in names:
        # once for light, once for dark
        assert css.count(f"--{name}:") == 2, name


def test_open_and_closed_loops_stand_on_axes_of_their_own(charts: dict[str, Chart]) -> None:
    for name in ("throughput", "levels", "capacity"):
        assert set(charts[name].variants) == {"concurrency", "poisson"}
    closed, offered = (charts["levels"].variants[kind]["layout"]["xaxis"] for kind in ("concurrency", "poisson"))
    assert closed["tickvals"] == [1, 2, 4, 8]
    assert offered["tickvals"] == [2, 5, 10]
    assert "offered" in offered["title"]["text"]


def test_the_break_even_has_its_band(data: ReportData, charts: dict[str, Chart]) -> None:
    told = data.comparison["break_even_interval"]
    for name in ("throughput", "levels"):
        shapes = charts[name].variants["concurrency"]["layout"]["shapes"]
        (band,) = [shape for shape in shapes if shape["type"] == "rect"]
        assert (band["x0"], band["x1"]) == (told["low"], told["high"])
        assert not any(
            shape["type"] == "rect" for shape in charts[name].variants["poisson"]["layout"].get("shapes", ())
        )


def test_categories_are_told_for_each_load_and_pooled(data: ReportData, charts: dict[str, Chart]) -> None:
    chart = charts["category"]
    assert list(chart.variants) == [*(level.label for level in data.levels), "all"]
    for level in data.levels:
        dots = chart.variants[level.label]["data"][1]
        told = data.comparison["by_load"][level.label]["by_category"]
        found = sorted(row["speedup"][data.headline]["estimate"] for row in told.values())
        assert sorted(dots["x"][1:]) == found
        assert dots["x"][0] == level.part.estimate(data.headline)


def test_goodput_and_underruns_are_the_summarys(data: ReportData, charts: dict[str, Chart]) -> None:
    shown = {trace["name"]: trace["y"] for trace in charts["goodput"].variants["share"]["data"]}
    paused = {trace["name"]: trace["y"] for trace in charts["underruns"].variants[""]["data"]}
    for arm in data.arms:
        rows = [level.part.arms[arm] for level in data.levels]
        assert shown[arm] == [100 * row["goodput"]["met"]["share"] for row in rows]
        assert paused[arm] == [100 * row["underruns"]["share"] for row in rows]
    assert "first token ≤ 80.0 ms" in charts["goodput"].caption


def test_steps_multiply_to_the_measured_speedup(data: ReportData, charts: dict[str, Chart]) -> None:
    for level in data.levels:
        (bars,) = charts["origin"].variants[level.label]["data"]
        measured = data.comparison["predicted"]["by_load"][level.label]["measured"]
        ends = [base + height for base, height in zip(bars["base"], bars["y"], strict=True)]
        assert max(ends[-1], bars["base"][-1] + 0) == pytest.approx(max(measured, 1.0))
        assert bars["base"][-1] == pytest.approx(min(measured, 1.0))


def test_cold_start_and_telemetry(data: ReportData, charts: dict[str, Chart]) -> None:
    ready = charts["start"].variants[""]["data"][0]
    assert dict(zip(ready["y"], ready["x"], strict=True)) == {"baseline": 8.2, "speculative": 13.9}
    assert {"waiting_requests", "kv_cache_usage", "power"} <= set(charts["telemetry"].variants)
    for variant in charts["telemetry"].variants.values():
        assert all(len(trace["x"]) <= 800 for trace in variant["data"])
    joules = data.summary["server"]["baseline"]["concurrency 1"]["energy"]["joules_per_token"]
    baseline = next(trace for trace in charts["energy"].variants[""]["data"] if trace["name"] == "baseline")
    assert baseline["y"][0] == joules


def test_words_of_the_run_are_on_the_page(page: Page) -> None:
    for words in (
        "95 % interval", "Smallest detectable effect", "Noise floor", "Event loop late by", "Spearman",
        "poisson 10/s", "J/token", "The client's own error at concurrency 1",
    ):  # fmt: skip
        assert words in page.words, words
    brand = page.one("p", class_="brand").text
    assert "target Llama-3.1-8B" in brand
    assert "Llama-3.2-1B-draft" in brand
    assert "draft Llama-3.2-1B-draft" not in brand


def test_names_of_compared_servers_are_in_the_legend(data: ReportData) -> None:
    from dataclasses import replace

    options = {"options": {"labels": {"baseline": "vLLM", "speculative": "ours <b>"}}}
    named = read_page(render_html(replace(data, provenance=options)))
    assert "baseline: vLLM" in named.one("p", class_="legend").text
    assert "speculative: ours <b>" in named.one("p", class_="legend").text


def test_an_interval_without_ends_is_no_interval() -> None:
    assert Interval(1.2, None, None, 0.95, "one pair").range_text == "one pair"
