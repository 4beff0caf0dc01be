from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.builders import toy_spec
from tests.wire.fake_triton import ErrorMessage, FakeTriton, echo_script
from trtspec.cli.load_view import status_text
from trtspec.cli.main import cli
from trtspec.loadtest import Status

SMALL = ("--concurrency", "1", "--requests", "6", "--warmup", "1", "--max-tokens", "9")


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_spec(tmp_path_factory.mktemp("toy")).path


@pytest.fixture(scope="module")
def urls() -> Iterator[tuple[str, ...]]:
    with FakeTriton(echo_script(gap_ms=3)) as baseline, FakeTriton(echo_script(bundle=3, gap_ms=3)) as speculative:
        yield "--arm-url", f"baseline={baseline.url}", "--arm-url", f"speculative={speculative.url}"


def loadtest(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["loadtest", *map(str, arguments)])


def test_the_run_its_table_and_its_report(spec: Path, urls: tuple[str, ...], tmp_path: Path) -> None:
    result = loadtest(spec, *urls, *SMALL, "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"provenance.json", "requests.jsonl", "summary.json", "report.html", "requests.csv"} <= names
    verdict = json.loads((tmp_path / "run" / "summary.json").read_text())["comparison"]["verdict"]
    assert verdict.partition("(")[0] in " ".join(result.stdout.split())
    assert str(tmp_path / "run") in result.stdout


def test_json_on_stdout_is_the_summary_alone(spec: Path, urls: tuple[str, ...], tmp_path: Path) -> None:
    result = loadtest(spec, *urls, *SMALL, "--out", tmp_path / "run", "--output", "json", "--no-report")
    assert json.loads(result.stdout) == json.loads((tmp_path / "run" / "summary.json").read_text())
    assert not (tmp_path / "run" / "report.html").exists()


def test_quiet_prints_the_folder(spec: Path, urls: tuple[str, ...], tmp_path: Path) -> None:
    result = loadtest(spec, *urls, *SMALL, "--out", tmp_path / "run", "--output", "quiet", "--no-report")
    assert result.stdout == f"{tmp_path / 'run'}\n"
    assert result.stderr == ""


def test_options_reach_the_run(spec: Path, urls: tuple[str, ...], tmp_path: Path) -> None:
    prompts = tmp_path / "mine.jsonl"
    prompts.write_text('{"id": "a", "category": "mine", "prompt": "Hello"}\n')
    options = (
        "--draft-length",
        "5",
        "--seed",
        "9",
        "--temperature",
        "0.5",
        "--chat-template",
        "never",
        "--timeout",
        "7",
    )
    result = loadtest(spec, *urls, *SMALL, *options, "--prompts", prompts, "--out", tmp_path / "run", "--no-report")
    assert result.exit_code == 0, result.output
    written = json.loads((tmp_path / "run" / "provenance.json").read_text())["options"]
    expected: dict[str, Any] = {
        "draft_length": 5, "seed": 9, "temperature": 0.5, "chat_template": "never", "timeout": 7.0, "requests": 6,
        "warmup": 1, "max_tokens": 9, "concurrency": [1], "prompts": str(prompts),
    }  # fmt: skip
    assert {key: written[key] for key in expected} == expected


def test_failed_requests_fail_the_command_and_keep_the_result(
    spec: Path, urls: tuple[str, ...], tmp_path: Path
) -> None:
    with FakeTriton(lambda _: [ErrorMessage("target_failed: boom")]) as broken:
        arms = (*urls[:2], "--arm-url", f"speculative={broken.url}")
        result = loadtest(spec, *arms, *SMALL, "--out", tmp_path / "run", "--output", "json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["arms"]["speculative"]["error_rate"] == 1.0
    assert "6 requests failed (boom)" in result.stderr
    assert (tmp_path / "run" / "report.html").is_file()


def test_ctrl_c_keeps_what_was_measured_and_is_130(spec: Path, tmp_path: Path) -> None:
    with FakeTriton(echo_script(gap_ms=10)) as baseline, FakeTriton(echo_script(gap_ms=10)) as speculative:

        def interrupt() -> None:
            while len(speculative.received) < 8:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        arms = ("--arm-url", f"baseline={baseline.url}", "--arm-url", f"speculative={speculative.url}")
        result = loadtest(spec, *arms, "--concurrency", "1", "--requests", "60", "--out", tmp_path / "run")
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
    assert (tmp_path / "run" / "report.html").is_file()


def test_no_server_is_exit_5(spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtspec.loadtest.session._READY", 0.3)
    arms = ("--arm-url", "baseline=127.0.0.1:9", "--arm-url", "speculative=127.0.0.1:9")
    result = loadtest(spec, *arms, "--out", tmp_path / "run")
    assert result.exit_code == 5
    assert "127.0.0.1:9" in result.stderr


def test_without_repositories_nothing_is_started(spec: Path) -> None:
    result = loadtest(spec)
    assert result.exit_code == 2
    assert "trtspec repo" in result.stderr
    assert not (spec.parent / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--arm-url", "speculative=host"), "is not ARM=HOST:PORT"),
        (("--arm-url", "treatment=host:1"), "is not ARM=HOST:PORT"),
        (("--arm-url", "speculative=host:1"), "no address for the baseline arm"),
        (("--concurrency", "1,x"), "separated by commas"),
        (("--concurrency", "0"), "separated by commas"),
        (("--concurrency", "2,2"), "given twice"),
        (("--prompts", "nowhere.jsonl"), "no such file"),
        (("--draft-length", "60"), "more than the engine's"),
        (("--requests", "0"), "--requests"),
    ],
)
def test_mistakes_on_the_command_line_are_exit_2(spec: Path, arguments: tuple[str, ...], words: str) -> None:
    result = loadtest(spec, *arguments)
    assert result.exit_code == 2
    assert words in result.stderr


def test_the_live_line_tells_all() -> None:
    status = Status("speculative", 4, done=12, total=240, errors=2, tokens_per_second=41.7, acceptance_rate=0.614,
                    seconds_left=93)  # fmt: skip
    text = status_text(status)
    for part in ("speculative ×4", "42 tokens/s", "acceptance so far 61%", "2 failed", "1 min 33 s left"):
        assert part in text
    bare = Status(
        "baseline", 1, done=1, total=2, errors=0, tokens_per_second=None, acceptance_rate=None, seconds_left=None
    )
    assert status_text(bare) == "baseline ×1"
