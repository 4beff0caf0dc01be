from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.reports.rich import rich_run
from tests.reports.sample import Shape, make_records, sample_provenance, write_run
from trtspec.cli.main import cli
from trtspec.loadtest import read_run, summarise_run
from trtspec.loadtest.run_index import remember_run

SPEC = "version: 1\nname: demo\ntarget: {checkpoint: target}\ndraft: {checkpoint: draft}\n"
SMALL = Shape(prompts=8, levels=(1,), failing=0)


def _report(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["report", *map(str, arguments)])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "runs" / "demo" / "20260101-120000-aaaa", make_records(SMALL), sample_provenance())


def test_a_run_folder_gets_page_and_tables(run: Path) -> None:
    result = _report(run)
    assert result.exit_code == 0, result.output
    names = {path.name for path in run.iterdir()}
    assert {"report.html", "requests.csv", "metrics.csv", "acceptance.csv", "speedup.csv"} <= names
    assert summarise_run(read_run(run))["comparison"]["verdict"] in result.stdout
    assert "report.html" in result.stdout


def test_json_is_the_summary(run: Path) -> None:
    result = _report(run, "--output", "json")
    assert json.loads(result.stdout) == json.loads(json.dumps(summarise_run(read_run(run))))


def test_the_requests_of_a_run_stand_for_its_folder(run: Path) -> None:
    assert _report(run / "requests.jsonl", "--output", "json").stdout == _report(run, "--output", "json").stdout
    assert (run / "report.html").is_file()


def test_quiet_prints_the_page(run: Path) -> None:
    assert _report(run, "--output", "quiet").stdout.strip() == str(run / "report.html")


def test_a_hand_made_file_gets_its_own_names(tmp_path: Path) -> None:
    path = write_run(tmp_path, make_records(SMALL)) / "requests.jsonl"
    mine = path.rename(tmp_path / "mine.jsonl")
    assert _report(mine).exit_code == 0
    assert (tmp_path / "mine.html").is_file()
    assert (tmp_path / "mine-csv" / "metrics.csv").is_file()


def test_places_can_be_chosen(run: Path, tmp_path: Path) -> None:
    result = _report(run, "--html", tmp_path / "a" / "page.html", "--csv", tmp_path / "b")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "a" / "page.html").is_file()
    assert (tmp_path / "b" / "speedup.csv").is_file()
    assert {path.name for path in run.iterdir()} == {"requests.jsonl", "provenance.json"}


def test_without_a_run_the_newest_is_shown(run: Path, tmp_path: Path) -> None:
    newer = write_run(run.parent / "20260102-120000-bbbb", make_records(SMALL))
    spec = tmp_path / "trtspec.yaml"
    spec.write_text(SPEC)
    assert _report("--spec", spec, "--output", "quiet").stdout.strip() == str(newer / "report.html")


def test_open_shows_the_page(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(click, "launch", shown.append)
    assert _report(run).exit_code == 0
    assert shown == []
    assert _report(run, "--open").exit_code == 0
    assert shown == [(run / "report.html").resolve().as_uri()]


@pytest.mark.parametrize("missing", ["nowhere", "."])
def test_no_run_there(tmp_path: Path, missing: str) -> None:
    result = _report(tmp_path / missing)
    assert result.exit_code == 2
    assert "next:" in result.stderr
    assert "trtspec loadtest" in result.stderr


def test_no_run_yet(tmp_path: Path) -> None:
    spec = tmp_path / "trtspec.yaml"
    spec.write_text(SPEC)
    result = _report("--spec", spec)
    assert result.exit_code == 2
    assert f"trtspec loadtest {spec}" in result.stderr.replace("\n", "")


def test_no_spec(tmp_path: Path) -> None:
    result = _report("--spec", tmp_path / "trtspec.yaml")
    assert result.exit_code == 2
    assert "no such file" in result.stderr


def test_a_broken_line_is_named(run: Path) -> None:
    path = run / "requests.jsonl"
    lines = path.read_text().splitlines()
    lines[2] = '{"arm": "sideways"}'
    path.write_text("\n".join(lines) + "\n")
    result = _report(run)
    assert result.exit_code == 2
    assert f"{path}:3" in result.stderr.replace("\n", "")
    assert not (run / "report.html").exists()


def test_an_empty_file_is_an_error(run: Path) -> None:
    (run / "requests.jsonl").write_text("")
    result = _report(run)
    assert result.exit_code == 2
    assert "no requests" in result.stderr


def test_a_place_that_cannot_be_written(run: Path) -> None:
    (run / "file").write_text("")
    result = _report(run, "--html", run / "file" / "page.html")
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr
    assert "--html" in result.stderr


def test_a_failed_run_is_still_a_report(tmp_path: Path) -> None:
    lines = make_records(SMALL)
    for line in lines:
        line.update(error="server_unreachable", chunks=[], server=None)
    result = _report(write_run(tmp_path / "run", lines))
    assert result.exit_code == 0, result.output
    assert (tmp_path / "run" / "report.html").is_file()


def test_forms_are_written_where_asked(run: Path, tmp_path: Path) -> None:
    places = {"--markdown": "m.md", "--junit": "j.xml", "--json": "s.json", "--aiperf": "ai"}
    result = _report(run, *(part for flag, name in places.items() for part in (flag, tmp_path / name)))
    assert result.exit_code == 0, result.output
    assert (tmp_path / "m.md").read_text().startswith("### ")
    assert (tmp_path / "j.xml").read_text().startswith("<?xml")
    assert json.loads((tmp_path / "s.json").read_text())["schema"] == 1
    assert (tmp_path / "ai" / "baseline-concurrency_1" / "profile_export.jsonl").is_file()
    assert "m.md" in result.stdout


GATE = "speedup.latency_per_token.estimate > 0"


def test_a_gate_that_fails_ends_with_7_and_the_report_is_there(run: Path, tmp_path: Path) -> None:
    junit = tmp_path / "j.xml"
    result = _report(run, "--fail-if", GATE, "--fail-if", "arms.baseline.error_rate > 0", "--junit", junit)
    assert result.exit_code == 7
    assert f"gate failed: {GATE}" in result.stdout
    assert "gate passed: arms.baseline.error_rate > 0" in result.stdout
    assert GATE in result.stderr
    assert (run / "report.html").is_file()
    assert 'failures="1"' in junit.read_text()


def test_a_gate_that_passes_ends_with_0(run: Path) -> None:
    assert _report(run, "--fail-if", "speedup.latency_per_token.estimate < 0").exit_code == 0


@pytest.mark.parametrize("gate", ["speedup.latency < 1", "speedup.latency_per_token.low", "verdict < 1"])
def test_a_gate_that_cannot_be_held_is_a_usage_error(run: Path, gate: str) -> None:
    result = _report(run, "--fail-if", gate)
    assert result.exit_code == 2
    assert "next:" in result.stderr


def test_a_gate_without_grammar_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    result = _report(tmp_path / "nowhere", "--fail-if", "this is no gate")
    assert result.exit_code == 2
    assert "is no gate" in result.stderr


def test_a_failed_gate_in_json(run: Path) -> None:
    result = _report(run, "--fail-if", GATE, "--output", "json")
    assert result.exit_code == 7
    assert json.loads(result.stdout)["schema"] == 1
    assert "a gate failed" in result.stderr


def test_a_run_that_out_put_elsewhere_is_found(run: Path, tmp_path: Path) -> None:
    elsewhere = write_run(tmp_path / "mine", make_records(SMALL), {"created": "2026-06-01T00:00:00+00:00"})
    remember_run(run.parent, elsewhere)
    spec = tmp_path / "trtspec.yaml"
    spec.write_text(SPEC)
    assert _report("--spec", spec, "--output", "quiet").stdout.strip() == str(elsewhere / "report.html")


def test_without_a_spec_the_newest_run_below_runs_is_shown(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.parent.parent.parent)
    newer = write_run(run.parent.parent / "ab" / "20260103-000000-cccc", make_records(SMALL))
    shown = Path(_report("--output", "quiet").stdout.strip())
    assert shown.resolve() == (newer / "report.html").resolve()


def test_several_runs_are_compared(run: Path, tmp_path: Path) -> None:
    other = write_run(run.parent / "20260102-120000-bbbb", make_records(SMALL.with_(seed=9)), sample_provenance())
    page, note = tmp_path / "trend.html", tmp_path / "m.md"
    result = _report(other, run, "--html", page, "--markdown", note, "--fail-if", GATE)
    assert result.exit_code == 7
    assert "change" in result.stdout
    assert "2 runs" in page.read_text()
    assert note.read_text().startswith("### trtspec: 2 runs")
    data = json.loads(_report(run, other, "--html", page, "--output", "json").stdout)
    assert [entry["name"] for entry in data["runs"]] == [run.name, other.name]
    assert _report(run, other, "--csv", tmp_path).exit_code == 2


def test_the_table_of_loads_fits_a_usual_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No number is cut, also where open loops have long names; service levels are told."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = _report(rich_run(tmp_path / "run")).stdout
    table = shown[shown.index("level") : shown.index("medians in ms")]
    assert "…" not in table
    assert "poisson 10/s" in table
    assert max(map(len, table.splitlines())) <= 80
    assert "goodput     poisson 2/s: baseline" in shown
    assert "capacity    Closed loop, requests per second: baseline " in shown
