from __future__ import annotations

import io
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
from rich.console import Console

from tests.builders import toy_spec
from tests.loadtest.servers import chat_server
from tests.wire.fake_triton import ErrorMessage, FakeTriton, echo_script
from trtspec.cli.load_view import LoadView, status_table, status_text
from trtspec.cli.main import cli
from trtspec.cli.output import Sink
from trtspec.loadtest import Status
from trtspec.loadtest.status import ArmStatus

SMALL = ("--concurrency", "1", "--requests", "6", "--warmup", "1", "--max-tokens", "9")

Arguments = tuple[str | Path, ...]


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
        result = loadtest(
            spec, *arms, "--concurrency", "1", "--requests", "30", "--max-tokens", "12", "--out", tmp_path / "run"
        )
        assert result.exit_code == 130
        assert "interrupted" in result.stderr
        command = f"trtspec loadtest {spec} --resume {tmp_path / 'run'}"
        assert command in " ".join(result.stderr.split())
        again = loadtest(spec, "--resume", tmp_path / "run", "--output", "json")
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["arms"]["baseline"]["requests"]["ok"] == 30
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
    assert not list((spec.parent / "runs").glob("*/*/provenance.json"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--arm-url", "speculative=host"), "is not ARM=HOST:PORT"),
        (("--a", "http://a:1"), "two servers are compared"),
        (("--b", "http://a:1"), "two servers are compared"),
        (("--a", "nonsense", "--b", "http://a:1"), "neither http"),
        (("--a", "http://a:1", "--b", "b:1"), "same protocol"),
        (("--a", "a:1", "--b", "b:1", "--arm-url", "baseline=c:1"), "the same arms"),
        (("--rate", "fast"), "requests per second"),
        (("--rate", "0"), "requests per second"),
        (("--until", "narrow"), "is no share"),
        (("--duration", "5 fortnights"), "is no time"),
        (("--slo", "speed=3"), "is no service level"),
        (("--slo", "ttft=0"), "is no service level"),
        (("--profile", "fast"), "neither a step nor a ramp"),
        (("--trace", "nowhere.jsonl"), "no such file"),
        (("--resume", "nowhere"), "no run to go on with"),
        (("--resume", "nowhere", "--requests", "9"), "own options, not with --requests"),
        (("--until", "5%", "--requests", "9"), "--until"),
        (("--arm-url", "treatment=host:1"), "is not ARM=HOST:PORT"),
        (("--arm-url", "speculative=host:1"), "no address for the baseline arm"),
        (("--concurrency", "1,x"), "separated by commas"),
        (("--concurrency", "0"), "separated by commas"),
        (("--concurrency", "2,2"), "given twice"),
        (("--prompts", "nowhere.jsonl"), "no such file"),
        (("--draft-length", "60"), "more than the engine's"),
        (("--requests", "0"), "--requests"),
        (("--timeout", "nan"), "not a finite number"),
        (("--timeout", "inf"), "not a finite number"),
        (("--trace-speed", "inf"), "not a finite number"),
        (("--temperature", "nan"), "not a finite number"),
    ],
)
def test_mistakes_on_the_command_line_are_exit_2(spec: Path, arguments: tuple[str, ...], words: str) -> None:
    result = loadtest(spec, *arguments)
    assert result.exit_code == 2
    assert words in result.stderr


STATUS = Status(
    "speculative", "concurrency 4", done=12, total=240, errors=2, seconds_left=93,
    arms={
        "speculative": ArmStatus(6, 2, 41.7, 1.25, 0.08, 0.614),
        "baseline": ArmStatus(6, 0, 20.2, 2.5, 0.07),
    },
)  # fmt: skip
BARE = Status("baseline", "steps", done=1, total=None, errors=0, arms={}, seconds_left=None)


def test_a_line_in_a_log_tells_all() -> None:
    text = status_text(STATUS)
    for part in ("12/240", "concurrency 4", "baseline 20 tokens/s", "speculative 42 tokens/s",
                 "acceptance so far 61%", "2 failed", "1 min 33 s left"):  # fmt: skip
        assert part in text
    assert status_text(BARE) == "1  steps"


def drawn(status: Status) -> str:
    console = Console(width=100, file=io.StringIO(), force_terminal=False)
    console.print(status_table(status))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_the_live_view_has_both_arms_side_by_side() -> None:
    lines = drawn(STATUS).splitlines()
    assert "baseline" in lines[0]
    assert "▶ speculative" in lines[0]
    rows = {line[:17].strip(): line[17:].split("  ") for line in lines[1:]}
    assert [cell.strip() for cell in rows["tokens/s"] if cell.strip()] == ["20", "42"]
    assert [cell.strip() for cell in rows["first token"] if cell.strip()] == ["70 ms", "80 ms"]
    assert [cell.strip() for cell in rows["request"] if cell.strip()] == ["2.50 s", "1.25 s"]
    assert [cell.strip() for cell in rows["acceptance so far"] if cell.strip()] == ["–", "61%"]
    assert "12/240" in lines[-1]
    assert "1 min 33 s left" in lines[-1]
    assert "–" in drawn(BARE)


def test_the_live_view_runs_on_a_terminal_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    err = Console(file=io.StringIO(), force_terminal=True, width=100)
    with LoadView(Sink(err=err)) as view:
        view.show(STATUS)
        view.show(STATUS)
    assert "12/240" in err.file.getvalue()  # type: ignore[attr-defined]


def test_progress_as_lines_of_json(urls: tuple[str, ...], spec: Path, tmp_path: Path) -> None:
    arguments: Arguments = (spec, *urls, *SMALL, "--out", tmp_path / "run", "--no-report", "--progress", "json")
    result = loadtest(*arguments, "--output", "quiet")
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    assert lines
    last = lines[-1]
    assert (last["event"], last["done"], last["total"], last["errors"]) == ("progress", 12, 12, 0)
    assert last["arms"]["speculative"]["done"] == 6
    assert last["load"] == "concurrency 1"


def test_no_progress_at_all(urls: tuple[str, ...], spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtspec.cli.live_view._SECONDS", 0.0)
    arguments: Arguments = (spec, *urls, *SMALL, "--no-report")
    assert "tokens/s" in loadtest(*arguments, "--out", tmp_path / "a", "--progress", "plain").stderr
    assert "tokens/s" not in loadtest(*arguments, "--out", tmp_path / "b", "--progress", "none").stderr


def test_two_servers_without_a_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with chat_server() as one, chat_server() as other:
        result = loadtest(
            "--a", f"{one.url}/v1", "--b", f"{other.url}/v1", "--a-name", "old", "--a-model", "m", *SMALL,
            "--output", "json", "--no-report",
        )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["arms"]["baseline"]["requests"]["ok"] == 6
    (run,) = (tmp_path / "runs" / "ab").iterdir()
    provenance = json.loads((run / "provenance.json").read_text())
    assert provenance["labels"] == {"baseline": "old", "speculative": f"{other.url}/v1"}
    assert provenance["options"]["models"] == {"baseline": "m", "speculative": "m"}


def test_a_server_against_itself(tmp_path: Path) -> None:
    with chat_server() as one:
        result = loadtest("--a", f"{one.url}/v1", "--aa", *SMALL, "--out", tmp_path / "run", "--no-report")
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "run" / "provenance.json").read_text())["options"]["aa"] is True


def test_dry_run_shows_the_plan_and_sends_nothing(spec: Path, tmp_path: Path) -> None:
    arms = ("--arm-url", "baseline=http://127.0.0.1:9", "--arm-url", "speculative=http://127.0.0.1:9")
    given: Arguments = (spec, *arms, "--concurrency", "1,4", "--requests", "30", "--out", tmp_path / "run", "--dry-run")
    result = loadtest(*given, "--output", "json")
    assert result.exit_code == 0, result.output
    plan = json.loads(result.stdout)
    assert not (tmp_path / "run").exists()
    assert [(level["load"], level["requests"]) for level in plan["levels"]] == [
        ("concurrency 1", 30),
        ("concurrency 4", 30),
    ]
    assert {plan["levels"][0]["order"][at : at + 2] for at in range(0, 30, 2)} == {"bs", "sb"}
    assert (plan["requests"], plan["processes"], plan["until"]) == (60, 1, None)
    assert plan["notes"][-1] == "concurrency 4: 30 requests make 6 blocks, an interval wants 8 (32 requests)"
    shown = loadtest(*given).stdout
    for part in ("http://127.0.0.1:9", "concurrency 4", "60 measured requests in each arm", "note: concurrency 4"):
        assert part in shown
    assert loadtest(*given, "--output", "quiet").stdout.strip() == "60"


def test_dry_run_of_an_open_loop_and_of_one_that_decides_itself(spec: Path) -> None:
    arms = ("--arm-url", "baseline=http://127.0.0.1:9", "--arm-url", "speculative=http://127.0.0.1:9")
    plan = json.loads(loadtest(spec, *arms, "--profile", "2:10", "--dry-run", "--output", "json").stdout)
    (level,) = plan["levels"]
    assert (level["load"], level["warm_up"]) == ("steps", None)
    assert 5 < level["seconds"] <= 10
    until = loadtest(spec, *arms, "--until", "5%", "--dry-run", "--concurrency", "1", "--prompts", "builtin-60")
    assert "until an interval of 5.0%" in until.stdout
    assert "60 prompts are too few to stop by" in until.stdout


def test_a_dry_run_fails_where_the_run_would(spec: Path) -> None:
    without = loadtest(spec, "--dry-run")
    assert without.exit_code == 2
    assert "trtspec repo" in without.stderr
    assert loadtest(spec, "--dry-run", "--resume", "somewhere").exit_code == 2


def test_gates_are_exit_7_after_the_result(spec: Path, urls: tuple[str, ...], tmp_path: Path) -> None:
    small: Arguments = (spec, *urls, *SMALL, "--no-report", "--output", "json")
    gate = "arms.baseline.requests.ok"
    missed = loadtest(*small, "--out", tmp_path / "a", "--fail-if", f"{gate} < 7")
    assert missed.exit_code == 7
    assert json.loads(missed.stdout)["schema"] == 1
    assert f"{gate} < 7" in missed.stderr
    assert loadtest(*small, "--out", tmp_path / "b", "--fail-if", f"{gate} < 6").exit_code == 0
    wrong = loadtest(*small, "--out", tmp_path / "c", "--fail-if", "nonsense")
    assert wrong.exit_code == 2
    assert not (tmp_path / "c").exists()


def test_open_loops_and_limits_from_the_command_line(spec: Path, urls: tuple[str, ...], tmp_path: Path) -> None:
    result = loadtest(
        spec, *urls, "--rate", "40", "--arrivals", "gamma", "--burstiness", "0.5", "--duration", "1s", "--slo",
        "ttft=500ms,e2e=2", "--reading-speed", "9", "--disconnect", "10%", "--max-in-flight", "64", "--max-tokens", "4",
        "--workers", "1", "--unique-prefixes", "--out", tmp_path / "run", "--no-report",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    written = json.loads((tmp_path / "run" / "provenance.json").read_text())["options"]
    expected: dict[str, Any] = {
        "rate": [40.0], "arrivals": "gamma", "burstiness": 0.5, "duration": 1.0, "slo": {"ttft": 0.5, "e2e": 2.0},
        "reading_speed": 9.0, "disconnect": 0.1, "max_in_flight": 64, "workers": 1, "unique_prefixes": True,
        "concurrency": [],
    }  # fmt: skip
    assert {key: written[key] for key in expected} == expected
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert list(summary["arms"]["baseline"]["by_load"]) == ["gamma 40/s"]
    assert summary["arms"]["baseline"]["goodput"]["count"] > 0
