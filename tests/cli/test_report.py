from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.reports.sample import Shape, make_records, sample_provenance, write_run
from trtspec.cli.main import cli
from trtspec.loadtest import read_run, summarise_run

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
