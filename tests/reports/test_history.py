from __future__ import annotations

import json
import os
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tests.reports.page import read_page
from tests.reports.sample import Shape, make_records, sample_provenance, write_run
from trtspec.errors import UsageError
from trtspec.loadtest.run_index import known_runs, remember_run, started
from trtspec.reports import History, Places, history_json, load_history, open_run, write_history
from trtspec.reports.history_charts import history_charts
from trtspec.reports.history_page import print_history, render_history_html, render_history_markdown

SHAPE = Shape(prompts=24, levels=(1, 4), failing=0, diverging=0)


def _run(folder: Path, day: int, *, draft_length: int = 4, slower: float = 1.0) -> Path:
    acceptance = {name: min(0.95, chance * (1.4 if day > 2 else 1.0)) for name, chance in SHAPE.acceptance.items()}
    records = make_records(SHAPE.with_(seed=day, acceptance=acceptance))
    for line in records:
        if line["arm"] == "baseline":
            _stretch(line, slower)
    provenance = {**sample_provenance(), "created": f"2026-01-0{day}T10:00:00+00:00"}
    provenance["options"] = {"seed": 11, "draft_length": draft_length}
    return write_run(folder / f"2026010{day}-100000-abcd", records, provenance)


def _stretch(line: dict[str, object], factor: float) -> None:
    start = line["start_ns"]
    assert isinstance(start, int)
    chunks = line["chunks"]
    assert isinstance(chunks, list)
    for chunk in chunks:
        chunk["t_ns"] = start + int((chunk["t_ns"] - start) * factor)
    line["end_ns"] = max(chunk["t_ns"] for chunk in chunks)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    folder = tmp_path_factory.mktemp("runs")
    runs = [_run(folder, 3, draft_length=6, slower=1.2), _run(folder, 1), _run(folder, 2)]
    return load_history([open_run(run) for run in runs])


def test_runs_are_in_order_of_time(history: History) -> None:
    assert [run.moment for run in history.runs] == [f"2026-01-0{day} 10:00" for day in (1, 2, 3)]
    assert history.loads == ["concurrency 1", "concurrency 4"]


def test_the_last_change_is_told_with_what_the_intervals_say(history: History) -> None:
    changes = history.changes()
    assert [change.load for change in changes] == history.loads
    before, after = history.runs[1:]
    for change in changes:
        assert change.before == before.speedup(change.load)
        assert change.after == after.speedup(change.load)
        assert change.ratio > 1.2
        one, other = change.before, change.after
        assert None not in (one.low, one.high, other.low, other.high)
        assert change.clear == (other.ends[0] > one.ends[1] or other.ends[1] < one.ends[0])


def test_a_baseline_that_moved_is_said(history: History) -> None:
    assert len(history.moved()) == 2
    assert all("the baseline itself is" in text and "slower" in text for text in history.moved())


def test_what_differs_is_listed_and_what_does_not_is_not(history: History) -> None:
    differences = dict(history.differences())
    assert differences["options.draft_length"] == ("4", "4", "6")
    assert "options.seed" not in differences
    assert "created" not in differences


def test_charts_and_page(history: History) -> None:
    charts = {chart.id: chart for chart in history_charts(history)}
    assert set(charts) == {"speedup", "throughput", "latency", "acceptance"}
    for chart in charts.values():
        assert chart.table.rows
        names = [""]
        for control in chart.controls:
            names = [f"{name}|{choice.value}".lstrip("|") for name in names for choice in control.choices]
        assert set(names) == set(chart.variants), chart.id
    line = charts["speedup"].variants["concurrency 1"]["data"][0]
    assert line["x"] == [0, 1, 2]
    page = read_page(render_history_html(history))
    assert page.unbalanced == []
    assert "options.draft_length" in page.words
    assert "The baseline itself is" in page.words
    assert render_history_html(history) == render_history_html(history)


def test_markdown_json_and_terminal(history: History) -> None:
    text = render_history_markdown(history)
    assert text.startswith("### trtspec: 3 runs")
    assert "options.draft\\_length" in text
    data = history_json(history)
    assert json.loads(json.dumps(data)) == data
    assert [run["started"] for run in data["runs"]] == [run.moment for run in history.runs]
    console = Console(file=StringIO(), width=200)
    print_history(console, history)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "change" in shown
    assert "options.draft_length: 4 → 6" in shown


def test_forms_of_one_run_are_refused(history: History, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--junit is of one run"):
        write_history(history, Places(html=tmp_path / "c.html", junit=tmp_path / "j.xml"))
    page, written = write_history(history, Places(html=tmp_path / "c.html", markdown=tmp_path / "m.md"))
    assert page.is_file()
    assert set(written) == {"markdown"}


def test_a_run_elsewhere_is_remembered_once(tmp_path: Path) -> None:
    runs, elsewhere = tmp_path / "runs" / "demo", tmp_path / "mine"
    inside = write_run(runs / "20260101-100000-aaaa", make_records(SHAPE))
    provenance = {**sample_provenance(), "created": "2026-02-01T00:00:00+00:00"}
    write_run(elsewhere, make_records(SHAPE), provenance)
    for _ in range(2):
        remember_run(runs, elsewhere)
        remember_run(runs, inside)
    assert known_runs(runs) == [inside, elsewhere]
    assert (runs / "elsewhere.txt").read_text().count("mine") == 1
    (elsewhere / "requests.jsonl").unlink()
    assert known_runs(runs) == [inside]


def test_a_folder_of_runs_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    remember_run(tmp_path / "runs", tmp_path / "mine")
    assert known_runs(tmp_path / "runs") == []


def test_when_a_run_began(tmp_path: Path) -> None:
    named = write_run(tmp_path / "20260101-100000-aaaa", make_records(SHAPE))
    told = write_run(tmp_path / "told", make_records(SHAPE), {"created": "2026-01-01T10:00:01"})
    bare = write_run(tmp_path / "bare", make_records(SHAPE), {"created": "yesterday"})
    os.utime(bare / "requests.jsonl", (5, 5))
    assert started(told) - started(named) == 1
    assert started(bare) == 5
    assert started(tmp_path / "nothing") == 0
