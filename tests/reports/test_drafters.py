"""Who drafts stands at the head of a report, and who drafted how much among its numbers."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.reports.conftest import Lines, report_of
from tests.reports.page import read_page
from tests.reports.sample import Shape, make_records
from trtspec.errors import EnvironmentMissing
from trtspec.reports import ReportData
from trtspec.reports.console import print_report
from trtspec.reports.csv_files import csv_files, request_csv
from trtspec.reports.drafters import drafter_lines, drafter_note, told_by_drafter
from trtspec.reports.gates import check_gates
from trtspec.reports.html import render_html
from trtspec.reports.markdown import render_markdown
from trtspec.reports.parquet import parquet_files
from trtspec.reports.view import _pair_names


@pytest.mark.parametrize(
    ("draft", "names"),
    [
        ({"checkpoint": "/models/small"}, ["target big", "draft small"]),
        ({"checkpoint": "/models/small", "method": "model"}, ["target big", "draft small"]),
        ({"checkpoint": None, "method": "ngram"}, ["target big", "draft: prompt lookup"]),
        ({"checkpoint": "/models/small", "method": "lookup"}, ["target big", "draft small", "prompt lookup first"]),
    ],
)
def test_the_subtitle_says_who_drafts(draft: dict[str, Any], names: list[str]) -> None:
    assert _pair_names({"target": {"checkpoint": "/models/big"}, "draft": draft}) == names


def looked_up(*, model: bool = True, categories: int = 6) -> Lines:
    """A run in which the first half of the rounds, or all of them, drafted from the text."""
    lines = make_records(Shape(prompts=12, levels=(1, 2), failing=0))
    names = list(dict.fromkeys(line["category"] for line in lines))[:categories]
    for line in lines:
        line["category"] = line["category"] if line["category"] in names else names[0]
        server = line["server"]
        if line["arm"] == "speculative":
            rounds, accepted = (server[key] // (2 if model else 1) for key in ("num_spec_steps", "num_accepted_tokens"))
            counts = (rounds, 4 * rounds, min(accepted, 4 * rounds))
            keys = ("num_lookup_steps", "num_lookup_draft_tokens", "num_accepted_lookup_tokens")
            server.update(zip(keys, counts, strict=True))
    return lines


@pytest.fixture(scope="module")
def run() -> ReportData:
    return report_of(looked_up())


def shown(data: ReportData) -> str:
    stream = io.StringIO()
    print_report(Console(file=stream, width=200, no_color=True), data)
    return stream.getvalue()


def csv_rows(data: ReportData) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_files(data)["acceptance.csv"])))


def test_the_page_has_a_table_of_who_drafted(run: ReportData) -> None:
    page = read_page(render_html(run))
    assert page.unbalanced == []
    assert "Who drafted" in [element.text for element in page.all("h3")]
    (table,) = [one for one in page.all("table") if one.text.lstrip().startswith("Who drafted")]
    told = run.acceptance["by_drafter"]
    for name, words in (("text", "the text"), ("model", "a model")):
        assert table.text.count(words) == 7  # all prompts, and each of six categories
        assert str(told[name]["num_spec_steps"]) in table.text
        assert f"{100 * told[name]['acceptance_rate']:.0f} %" in table.text
        assert f"{100 * told[name]['output_share']:.0f} %" in table.text


def test_one_category_has_no_rows_of_its_own() -> None:
    data = report_of(looked_up(categories=1))
    (table,) = [one for one in read_page(render_html(data)).all("table") if one.text.lstrip().startswith("Who drafted")]
    assert table.text.count("the text") == 1


def test_what_is_left_the_target_chose_itself(run: ReportData) -> None:
    told = told_by_drafter(run.acceptance)
    rest = 1 - told["text"]["output_share"] - told["model"]["output_share"]
    assert 0 < rest < 1
    first = "Drafts are looked for in the text first, then a model is asked."
    assert drafter_note(told) == f"{first} {100 * rest:.0f} % of the output the target chose itself."
    alone = told_by_drafter(report_of(looked_up(model=False)).acceptance)
    assert drafter_note(alone).startswith("Drafts are looked for in the text. ")
    unknown = {"text": {**told["text"], "output_share": None, "acceptance_rate": None}}
    assert drafter_note(unknown) == "Drafts are looked for in the text."
    assert "%" not in drafter_lines(unknown)[0]


def test_markdown_and_terminal_have_a_line_for_each(run: ReportData) -> None:
    lines = drafter_lines(told_by_drafter(run.acceptance))
    assert [line.partition(":")[0] for line in lines] == ["the text", "a model"]
    markdown, terminal = render_markdown(run), shown(run)
    for line in lines:
        assert f"- **drafted by** {line}" in markdown
        assert f"drafted by  {line}" in terminal
    assert "Who drafted, by category" in markdown
    assert markdown.count("| the text |") == 6


def test_a_gate_may_ask_for_a_drafter(run: ReportData) -> None:
    rate = run.acceptance["by_drafter"]["text"]["acceptance_rate"]
    path = "acceptance.by_drafter.text.acceptance_rate"
    results = check_gates(run.summary, [f"{path} < {rate / 2}", f"{path} < {2 * rate}"])
    assert [(result.value, result.failed) for result in results] == [(rate, False), (rate, True)]


def test_csv_has_them_with_their_share_of_the_output(run: ReportData) -> None:
    rows = {(row["by"], row["key"]): row for row in csv_rows(run)}
    for name, told in run.acceptance["by_drafter"].items():
        row = rows["drafter", name]
        assert float(row["share_of_output"]) == told["output_share"]
        assert float(row["acceptance_rate"]) == told["acceptance_rate"]
        code = run.acceptance["by_category"]["code"]["by_drafter"][name]
        assert int(rows["drafter in code", name]["num_draft_tokens"]) == code["num_draft_tokens"]
    requests = list(csv.DictReader(io.StringIO("".join(request_csv(run)))))
    told = sum(int(row["lookup_accepted"] or 0) for row in requests)
    assert told == run.acceptance["by_drafter"]["text"]["num_accepted_tokens"]


@pytest.mark.parametrize("lookups", [True, False])
def test_parquet_has_the_columns_of_lookups_where_there_are_some(tmp_path: Path, lookups: bool) -> None:
    data = report_of(looked_up() if lookups else make_records(Shape(prompts=6, levels=(1,))))
    try:
        from pyarrow import parquet
    except ImportError:
        with pytest.raises(EnvironmentMissing):
            dict(parquet_files(data))
        return
    (tmp_path / "r").write_bytes(dict(parquet_files(data))["requests.parquet"])
    names = set(parquet.read_table(tmp_path / "r").column_names)
    assert ({"lookup_rounds", "lookup_drafted", "lookup_accepted"} <= names) == lookups
    assert any("lookup" in name for name in names) == lookups


def test_nothing_appears_where_drafts_are_not_looked_up(sample: ReportData) -> None:
    texts = (render_html(sample), render_markdown(sample), shown(sample), *csv_files(sample).values())
    for text in texts:
        assert not any(words in text for words in ("Who drafted", "drafted by", "by_drafter", "share_of_output"))
    assert "lookup" not in next(iter(request_csv(sample)))
