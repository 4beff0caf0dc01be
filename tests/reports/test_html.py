from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.reports.conftest import Lines, report_of
from tests.reports.page import Page, read_page
from tests.reports.sample import Shape, make_records, sample_provenance
from trtspec import __version__
from trtspec.reports import ReportData
from trtspec.reports.html import REPORT_SCHEMA, charts_of, render_html
from trtspec.reports.paths import find

SMALL = Shape(prompts=12, levels=(1, 4), failing=0)
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028 & \"quoted\" 'single' <!--"


@pytest.fixture(scope="module")
def html(sample: ReportData) -> str:
    return render_html(sample)


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return read_page(html)


def test_elements_are_balanced(page: Page) -> None:
    assert page.unbalanced == []


def test_nothing_is_loaded_from_outside(page: Page) -> None:
    for element in page.elements:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            value = element.attributes.get(name, "")
            assert value == "" or value.startswith("#"), (element.tag, name, value)
        assert element.tag not in {"link", "iframe", "object", "embed", "base"}
    policy = page.one("meta", http_equiv="Content-Security-Policy").attributes["content"]
    assert policy.startswith("default-src 'none'")
    style = page.one("style").text
    assert "url(" not in style
    assert "@import" not in style


def test_headings_come_in_the_order_of_a_decision(page: Page) -> None:
    assert [element.text for element in page.all("h1")] == [page.one("h1").text]
    sections = [element.text for element in page.all("h2")]
    tiles, parts = sections[:8], sections[8:]
    assert "Acceptance rate" in tiles
    wanted = ["Speed", "Acceptance", "Load", "Server", "The run itself", "All metrics", "Answers"]
    assert parts == [*wanted, "Provenance", "Definitions"]


def test_the_verdict_is_the_first_heading(page: Page, sample: ReportData) -> None:
    verdict, why = (element.text.replace("\xa0", " ") for element in (page.one("h1"), page.one("p", class_="why")))
    assert f"{verdict} {why}" == sample.comparison["verdict"]


def test_every_keyed_number_is_the_summarys(page: Page, sample: ReportData) -> None:
    keyed = [element for element in page.all("data") if element.attributes.get("data-key")]
    assert len(keyed) > 50
    for element in keyed:
        raw = float(element.attributes["value"])
        assert raw == find(sample.summary, element.attributes["data-key"]), element.attributes
        shown = float(re.sub(r"[^\d.,-]", "", element.text.split(" of ")[0]).replace(",", "") or "nan")
        factor = next((f for f in (1, 100, 1000) if shown == pytest.approx(raw * f, rel=0.02, abs=0.006)), None)
        assert factor is not None, (element.text, element.attributes)


def test_headline_and_tiles_are_there(page: Page, sample: ReportData) -> None:
    keys = {element.attributes["data-key"] for element in page.all("data")}
    wanted = {
        "comparison.by_concurrency.1.speedup.latency_per_token.estimate",
        "comparison.by_concurrency.8.speedup.latency_per_token.estimate",
        "acceptance.acceptance_rate",
        "acceptance.mean_acceptance_length",
        "arms.baseline.time_to_first_token.p50",
        "arms.speculative.time_to_first_token.p50",
        "arms.speculative.output_tokens_per_second.p50",
        "arms.baseline.error_rate",
        "comparison.equality.identical",
    }
    assert wanted <= keys
    identical, diverged = (sample.comparison["equality"][key] for key in ("identical", "diverged"))
    assert f"{identical} of {identical + diverged}" in page.words


def test_tiles_show_times_of_the_lowest_level_and_not_pooled_medians(page: Page, sample: ReportData) -> None:
    tiles = page.all("li", class_="tile")
    tile = next(element for element in tiles if "Request latency" in element.text)
    level = sample.levels[0]
    speedup = level.part.speedup("request_latency")
    assert speedup is not None
    assert speedup.text.replace("\xa0", " ") in tile.text.replace("\xa0", " ")
    keys = {element.attributes["data-key"] for element in page.all("data")}
    assert f"arms.baseline.by_concurrency.{level.short}.request_latency.p50" in keys
    assert f"Times and rates are those of {level.label}" in page.words


def test_the_embedded_summary_is_the_summary(page: Page, sample: ReportData) -> None:
    assert json.loads(page.one("script", id="report-summary").text) == json.loads(json.dumps(sample.summary))


def test_every_chart_has_a_table_with_its_numbers(page: Page, sample: ReportData) -> None:
    captions = [element.text for element in page.all("caption")]
    shown = [chart for chart in charts_of(sample).values() if not chart.absent]
    assert len(shown) > 10
    for chart in shown:
        assert chart.title in captions
        assert chart.table.rows
    assert page.all("table")
    assert all(element.attributes.get("scope") for element in page.all("th"))


def test_chart_controls_name_existing_variants(sample: ReportData) -> None:
    for chart in charts_of(sample).values():
        names = [""]
        for control in chart.controls:
            names = [f"{name}|{choice.value}".lstrip("|") for name in names for choice in control.choices]
        if not chart.absent:
            assert set(names) == set(chart.variants), chart.id


def test_every_warning_is_told_once(page: Page, sample: ReportData) -> None:
    warnings = sample.comparison["warnings"]
    assert warnings
    for warning in warnings:
        assert page.words.lower().count(warning.lower()) == 1


def test_a_missing_percentile_is_a_dash_with_its_reason(page: Page) -> None:
    dashes = page.all("abbr")
    assert dashes
    assert all(element.text == "–" and element.attributes["title"] for element in dashes)
    assert any("p99 needs 100" in element.attributes["title"] for element in dashes)
    assert "p99 needs 100" in page.words


def test_versions_are_in_the_file(page: Page) -> None:
    assert page.one("meta", name="trtspec-report-schema").attributes["content"] == str(REPORT_SCHEMA)
    assert page.one("meta", name="generator").attributes["content"] == f"trtspec {__version__}"


def test_provenance_is_shown(page: Page) -> None:
    text = page.one("dl", class_="provenance").text
    for words in (
        "trtspec loadtest trtspec.yaml",
        "<b>bold</b>",
        "torch 2.13.0",
        "tensorrt-llm not installed",
        "3.11.7",
    ):
        assert words in text


def test_the_same_input_gives_the_same_bytes(html: str) -> None:
    assert render_html(report_of(make_records(), sample_provenance())) == html


def test_diverging_prompts_show_both_answers(page: Page) -> None:
    different = page.all("details", data_same="false")
    assert len(different) == 2
    assert all("otherwise" in element.text and "different" in element.text for element in different)
    assert len(page.all("details", class_="pair")) == 36


@pytest.mark.parametrize("source", ["builtin", "builtin-60", "random"])
def test_prompt_texts_of_the_packages_own_prompts(source: str) -> None:
    from trtspec.loadtest.prompts import load_prompts

    prompts = load_prompts(source)
    lines = make_records(SMALL)
    for line in lines:
        line["prompt_id"] = prompts.prompts[0].id
    told = {"prompts": {"source": source, "sha256": prompts.sha256}}
    assert prompts.prompts[0].text in read_page(render_html(report_of(lines, told))).one("section", id="outputs").text
    told["prompts"]["sha256"] = "other"
    assert prompts.prompts[0].text not in render_html(report_of(lines, told))


def test_text_of_a_run_is_never_markup() -> None:
    lines = make_records(SMALL)
    for line in lines:
        line["prompt_id"] += HOSTILE
        line["category"] += HOSTILE
        line["chunks"][0]["text"] += HOSTILE
    lines[0]["error"] = HOSTILE
    plain = read_page(render_html(report_of(make_records(SMALL), sample_provenance())))
    data = report_of(lines, {"argv": [HOSTILE], "spec": {HOSTILE: HOSTILE}, "prompts": HOSTILE, HOSTILE: HOSTILE})
    page = read_page(render_html(data))
    assert page.unbalanced == []
    assert len(page.all("script")) == len(plain.all("script"))
    assert not page.all("img")
    assert "alert(1)" in page.words
    figures = page.one("script", id="report-figures").text
    assert "<" not in figures
    json.loads(figures)


def test_hover_texts_are_escaped_for_plotly() -> None:
    lines = make_records(SMALL)
    for line in lines:
        line["prompt_id"] = f'<a href="https://example.org">{line["prompt_id"]}</a>'
        line["category"] = f"<b>{line['category']}</b>"
    shown = json.dumps({name: chart.variants for name, chart in charts_of(report_of(lines)).items()})
    assert "<a " not in shown
    assert "&lt;a href" in shown
    assert "&lt;b&gt;" in shown


def _only(arm: str) -> Lines:
    return make_records(SMALL.with_(arms=(arm,)))


def _all_failed() -> Lines:
    lines = make_records(SMALL)
    for line in lines:
        line.update(error="boom", chunks=[], server=None)
    return lines


def _bare() -> Lines:
    """What a person writes by hand: no token counts, no server, no category."""
    keep = ("arm", "prompt_id", "start_ns", "end_ns", "chunks")
    lines = [{key: line[key] for key in keep} for line in make_records(SMALL.with_(levels=(1,)))]
    for line in lines:
        line["chunks"] = [{"t_ns": chunk["t_ns"], "text": chunk["text"]} for chunk in line["chunks"]]
    return lines


def _one_chunk() -> Lines:
    lines = make_records(SMALL)
    for line in lines:
        line["chunks"] = [{**line["chunks"][-1], "tokens": 40}]
    return lines


DEGENERATE: dict[str, tuple[Lines, str]] = {
    "no requests": ([], "No request was recorded"),
    "baseline only": (_only("baseline"), "No prompt was answered by both arms"),
    "speculative only": (_only("speculative"), "No prompt was answered by both arms"),
    "no counters": (make_records(SMALL.with_(server=False)), "acceptance is unknown, not zero"),
    "one concurrency": (make_records(SMALL.with_(levels=(4,))), "needs at least two concurrency levels"),
    "all failed": (_all_failed(), "No request succeeded"),
    "by hand": (_bare(), "acceptance is unknown, not zero"),
    "one request": (make_records(SMALL)[:1], "No prompt was answered by both arms"),
    "one pair": (make_records(SMALL)[:2], "an interval needs"),
    "in one piece": (_one_chunk(), "in one piece"),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_missing_data_is_told_in_words(name: str) -> None:
    lines, words = DEGENERATE[name]
    page = read_page(render_html(report_of(lines)))
    assert page.unbalanced == []
    everything = f"{page.words} {' '.join(element.attributes.get('title', '') for element in page.elements)}"
    assert words in everything
    assert not re.search(r"\b(None|nan|NaN|inf|undefined|Undefined)\b", page.words)
    assert "No provenance.json" in page.words


@pytest.mark.parametrize("name", ["no counters", "by hand", "baseline only", "no requests", "all failed"])
def test_unknown_acceptance_is_not_zero(name: str) -> None:
    page = read_page(render_html(report_of(DEGENERATE[name][0])))
    keys = {element.attributes["data-key"] for element in page.all("data")}
    assert "acceptance.acceptance_rate" not in keys
    tile = next(element for element in page.all("li", class_="tile") if "Acceptance rate" in element.text)
    assert "unknown" in tile.text
    assert "0 %" not in tile.text


def test_no_headline_number_when_the_verdict_is_withheld() -> None:
    lines = make_records(SMALL)
    for line in [line for line in lines if line["arm"] == "speculative"][:12]:
        line.update(error="boom", chunks=[], server=None)
    data = report_of(lines)
    assert data.comparison["withheld"]
    page = read_page(render_html(data))
    assert not page.all("p", class_="headline")
    assert not page.all("p", class_="headline range")
    assert "boom" in page.one("section", id="outputs").text


def figure_text(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


@pytest.mark.parametrize("name", DEGENERATE)
def test_figures_are_finite_json(name: str) -> None:
    for chart in charts_of(report_of(DEGENERATE[name][0])).values():
        assert figure_text(chart.variants)
        assert bool(chart.variants) != bool(chart.absent)


def test_a_large_run_makes_a_page_that_still_opens() -> None:
    data = report_of(make_records(Shape(prompts=1500, levels=(1,), tokens=(12, 16), failing=0)))
    html = render_html(data)
    assert len(html.encode()) < 5_000_000
    page = read_page(html)
    assert 400 < len(page.all("details", class_="pair")) <= 500
    assert "more prompts are in requests.jsonl only" in page.words
    scatter = charts_of(data)["scatter"].variants["concurrency 1"]["data"]
    assert sum(len(trace["x"]) for trace in scatter) == 1000
