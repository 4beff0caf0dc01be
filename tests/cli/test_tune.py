from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from tests.builders import toy_spec
from tests.tuning.pair import paced_pair
from trtspec.cli.main import cli
from trtspec.cli.tune_view import tune_line, tune_table
from trtspec.spec import load_spec
from trtspec.tuning import TuneStatus
from trtspec.tuning.status import LevelStatus

Arguments = tuple[str | Path, ...]
SMALL = ("--concurrency", "1", "--lengths", "2,8", "--max-tokens", "9", "--budget", "1.5s", "--warmup", "1")


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return toy_spec(tmp_path / "toy").path


@pytest.fixture(scope="module")
def urls() -> Iterator[tuple[str, ...]]:
    with paced_pair() as (baseline, speculative):
        yield "--arm-url", f"baseline={baseline.url}", "--arm-url", f"speculative={speculative.url}"


def tune(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["tune", *map(str, arguments)])


def test_the_table_the_page_and_the_diff(spec: Path, urls: tuple[str, ...], tmp_path: Path) -> None:
    before = spec.read_text()
    result = tune(spec, *urls, *SMALL, "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert "Draft length 2" in result.stdout
    assert re.search(r"\+.*draft_length: 2", result.stdout)
    assert "--write puts this into the spec" in result.stderr
    assert (tmp_path / "run" / "tuning.html").stat().st_size > 10_000
    assert spec.read_text() == before


def test_write_changes_the_spec_and_nothing_else(spec: Path, urls: tuple[str, ...], tmp_path: Path) -> None:
    spec.write_text(f"# kept\n{spec.read_text()}")
    before = load_spec(spec).spec
    result = tune(spec, *urls, *SMALL, "--out", tmp_path / "run", "--write")
    assert result.exit_code == 0, result.output
    after = load_spec(spec).spec
    assert after.speculation.draft_length == 2
    assert after.model_dump(exclude={"speculation"}) == before.model_dump(exclude={"speculation"})
    assert "# kept" in spec.read_text()
    assert "trtspec repo" in result.stderr


def test_json_holds_every_cell(spec: Path, urls: tuple[str, ...], tmp_path: Path) -> None:
    result = tune(spec, *urls, *SMALL, "--out", tmp_path / "run", "--output", "json", "--progress", "json")
    data = json.loads(result.stdout)
    assert [cell["candidate"] for cell in data["levels"][0]["cells"]] == ["2", "8"]
    assert data["recommendation"]["values"]["draft_length"] == 2
    assert "draft_length: 2" in data["spec_diff"]
    events = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]
    assert events[-1]["event"] == "progress"
    assert events[-1]["levels"]["concurrency 1"]["leader"] == "2"


def test_quiet_prints_the_folder(spec: Path, urls: tuple[str, ...], tmp_path: Path) -> None:
    result = tune(spec, *urls, *SMALL, "--out", tmp_path / "run", "--output", "quiet")
    assert result.stdout == f"{tmp_path / 'run'}\n"
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--lengths", "0"), "no draft length"),
        (("--lengths", "1-3,x"), "no draft length"),
        (("--lengths", "5-2"), "no draft length"),
        (("--lengths", "20"), "more than the engine's 8"),
        (("--budget", "soon"), "no time"),
    ],
)
def test_mistakes_are_told(spec: Path, urls: tuple[str, ...], arguments: Arguments, message: str) -> None:
    result = tune(spec, *urls, *arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_only_an_interrupted_search_goes_on_and_with_its_own_options(spec: Path, tmp_path: Path) -> None:
    result = tune(spec, "--resume", tmp_path)
    assert (result.exit_code, "no search to go on with" in result.output) == (2, True)
    result = tune(spec, "--resume", tmp_path, "--budget", "9m")
    assert result.exit_code == 2
    assert "own options, not with --budget" in " ".join(result.output.split())


def test_without_a_spec_nothing_can_be_written(urls: tuple[str, ...], tmp_path: Path) -> None:
    first, second = (url.partition("=")[2] for url in urls[1::2])
    result = tune("--a", first, "--b", second, *SMALL, "--out", tmp_path / "run", "--write")
    assert result.exit_code == 2
    assert "--write needs a spec" in result.output
    result = tune("--a", first, "--b", second, *SMALL, "--out", tmp_path / "run", "--output", "json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["spec_diff"] is None


def test_ctrl_c_says_how_to_go_on(spec: Path, urls: tuple[str, ...], tmp_path: Path) -> None:
    out = tmp_path / "run"
    argv = [sys.executable, "-m", "trtspec", "tune", str(spec), *urls, *SMALL[:-4], "--budget", "60s"]
    argv += ["--out", str(out), "--progress", "none"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + 60
            while not _some_block_is_done(out):
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            os.kill(process.pid, signal.SIGINT)
            _, stderr = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert f"--resume {out}" in stderr
    assert json.loads((out / "tuning.json").read_text())["finished"] is False


def _some_block_is_done(out: Path) -> bool:
    try:
        return bool(json.loads((out / "state.json").read_text())["done"])
    except OSError:
        return False


def status(**values: Any) -> TuneStatus:
    levels = {
        "concurrency 1": LevelStatus(("2", "4"), "2", 1.5),
        "concurrency 4": LevelStatus(("2",), "2", 1.2, settled=True),
    }
    base = {"phase": "search", "rung": 1, "load": "concurrency 1", "candidate": "4", "done": 3, "total": 16}
    return TuneStatus(**{**base, "spent": 61.0, "budget": 1200.0, "levels": levels, **values})


def test_a_status_as_a_table_and_as_a_line() -> None:
    console = Console(width=100, record=True)
    console.print(tune_table(status()))
    text = console.export_text()
    for word in ("concurrency 1", "2, 4", "settled", "1.50×", "rung 2", "3/16 blocks", "1 min 01 s"):
        assert word in text
    line = tune_line(status(phase="confirm"))
    assert line.startswith("winners again  3/16 blocks")
    assert "concurrency 4: 2 of 1 settled" in line
