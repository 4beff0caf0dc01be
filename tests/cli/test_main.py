"""The command line as a whole: help that comes at once, exit codes, and errors as messages."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from trtspec import __version__, errors
from trtspec.cli.command import command as make_command
from trtspec.cli.command import examples
from trtspec.cli.failures import EXIT_CODES, exit_code
from trtspec.cli.main import COMMANDS, cli
from trtspec.cli.output import Sink

HELP_BUDGET = 0.150  # seconds of processor time, interpreter start included
HEAVY = {"torch", "transformers", "tritonclient", "grpc", "scipy", "plotly", "tokenizers", "gguf"}
NEEDLESS_FOR_HELP = HEAVY | {"numpy", "pydantic", "yaml", "rich", "jinja2", "google", "psutil"}


def loaded_by(*arguments: str) -> set[str]:
    """Top-level packages that a process has imported after `trtspec ARGUMENTS`."""
    code = (
        "import sys\n"
        "from trtspec.cli.main import cli\n"
        f"try: cli({list(arguments)!r}, prog_name='trtspec')\n"
        "except SystemExit as end: code = end.code\n"
        "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)\n"
        "sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def help_seconds() -> float:
    """Processor time of one `trtspec --help`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "trtspec", "--help"], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_is_there_at_once() -> None:
    # the least of several: other work on the machine makes a run longer, never shorter
    assert any(help_seconds() < HELP_BUDGET for _ in range(10))


def test_help_imports_nothing_but_click() -> None:
    assert not loaded_by("--help") & NEEDLESS_FOR_HELP


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples_and_no_heavy_import(name: str) -> None:
    assert not loaded_by(name, "--help") & HEAVY
    text = CliRunner().invoke(cli, [name, "--help"]).output
    assert "Examples:" in text
    assert f"trtspec {name}" in text
    below = re.findall(r"^  ([a-z]+) {2,}", text.partition("Commands:")[2], re.MULTILINE)  # those of a group
    for words in [[name, child] for child in below] or [[name]]:
        assert "--output" in CliRunner().invoke(cli, [*words, "--help"]).output


def test_the_list_of_commands_is_the_order_of_use() -> None:
    text = CliRunner().invoke(cli, ["--help"]).output
    listed = re.findall(r"^  ([a-z]+) {2,}", text, re.MULTILINE)
    assert [name for name in listed if name in COMMANDS] == list(COMMANDS)


def test_version() -> None:
    assert __version__ in CliRunner().invoke(cli, ["--version"]).output


@pytest.mark.parametrize("arguments", [["nonsense"], ["check", "--nonsense"], ["check", "--output", "xml"]])
def test_a_command_line_that_cannot_be_parsed_is_a_usage_error(arguments: list[str]) -> None:
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 2
    assert "Usage:" in done.stderr


FAILED_STEP = errors.FailedStep("target", "build", 1, "build.log", ("the last line",))

# design: 1 unexpected, 2 usage or spec, 3 incompatible pair, 4 build, 5 server, 6 verification, 7 threshold
CODES: list[tuple[errors.TrtspecError, int]] = [
    (errors.TrtspecError("x"), 1),
    (errors.UsageError("x"), 2),
    (errors.SpecError("spec", [errors.Problem("a", "wrong")]), 2),
    (errors.ArtefactMissing("x"), 2),
    (errors.CheckpointError("x"), 3),
    (errors.PairError("x"), 3),
    (errors.VersionUnsupported("x", version="1.3"), 3),
    (errors.BuildError("x"), 4),
    (errors.StepFailed("x", FAILED_STEP), 4),
    (errors.EngineRejected("x"), 4),
    (errors.ServerError("x"), 5),
    (errors.PortInUse(8000), 5),
    (errors.ServerNotReady("x"), 5),
    (errors.ServerUnreachable("x"), 5),
    (errors.VerificationFailed("x"), 6),
    (errors.ThresholdFailed("x"), 7),
    (errors.RequestFailed("x"), 1),
    (errors.RequestFailed("x", code="invalid_request"), 2),
    (errors.RequestFailed("x", code="http_503"), 1),
    (errors.LoadTestFailed("x"), 1),
    (errors.RecordsError("x"), 2),
    (errors.EnvironmentMissing("x"), 1),
]


def subclasses(kind: type[errors.TrtspecError]) -> Iterator[type[errors.TrtspecError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from subclasses(child)


def test_every_error_has_its_exit_code_in_this_table() -> None:
    defined = {kind for kind in subclasses(errors.TrtspecError) if kind.__module__ == "trtspec.errors"}
    assert {type(error) for error, _ in CODES} == defined


@pytest.mark.parametrize(("error", "code"), CODES, ids=[type(error).__name__ for error, _ in CODES])
def test_exit_codes(error: errors.TrtspecError, code: int) -> None:
    assert exit_code(error) == code
    assert CliRunner().invoke(raising(error)).exit_code == code


def test_a_failure_never_exits_with_zero() -> None:
    assert all(code != 0 for _, code in EXIT_CODES)


def raising(error: BaseException) -> click.Command:
    def failing(sink: Sink) -> None:
        """Fail."""
        del sink
        raise error

    return make_command(epilog=examples("trtspec fail"))(failing)


def test_an_error_says_what_where_and_what_to_type_next() -> None:
    error = errors.CheckpointError("is cut off [at 3]", where="/models/[x]", fix="fetch it again")
    done = CliRunner().invoke(raising(error))
    assert done.stdout == ""
    assert "error: /models/[x]: is cut off [at 3]" in done.stderr
    assert "next: fetch it again" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_error_in_json_is_json_on_stdout() -> None:
    problems = [errors.Problem("a.b", "wrong", "did you mean 'c'?"), errors.Problem("d", "missing")]
    done = CliRunner().invoke(raising(errors.SpecError("trtspec.yaml", problems)), ["--output", "json"])
    data = json.loads(done.stdout)
    assert data["schema"] == 1
    assert data["error"]["type"] == "SpecError"
    assert data["error"]["exit_code"] == done.exit_code == 2
    assert [problem["path"] for problem in data["error"]["problems"]] == ["a.b", "d"]


def test_a_path_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Rich would take what stands between two colons for the name of a picture."""
    sink = Sink(mode="human")
    sink.note("/tmp/:smile:/b")
    sink.result({}, lambda console: console.print("/tmp/:fire:/c"), "")
    shown = capsys.readouterr()
    assert shown.err == "/tmp/:smile:/b\n"
    assert shown.out == "/tmp/:fire:/c\n"


def test_ctrl_c_exits_with_130() -> None:
    done = CliRunner().invoke(raising(KeyboardInterrupt()))
    assert done.exit_code == 130
    assert "interrupted" in done.stderr


def test_the_unexpected_is_one_line_and_a_traceback_only_with_debug() -> None:
    done = CliRunner().invoke(raising(RuntimeError("boom")))
    assert done.exit_code == 1
    assert "RuntimeError: boom" in done.stderr
    assert "--debug" in done.stderr
    assert "Traceback" not in done.stderr
    debugged = CliRunner().invoke(raising(RuntimeError("boom")), ["--debug"])
    assert isinstance(debugged.exception, RuntimeError)


@pytest.mark.parametrize("name", ["check", "build", "repo", "serve", "loadtest"])
def test_commands_on_a_missing_spec_say_how_to_make_one(tmp_path: Path, name: str) -> None:
    done = CliRunner().invoke(cli, [name, str(tmp_path / "nothing.yaml")])
    assert done.exit_code == 2, done.output
    assert "no such file" in done.stderr
    assert "trtspec init" in done.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), 130),
        (RuntimeError("boom"), 1),
        (OSError(errno.ENOSPC, "No space left on device", "/full/file"), 1),
        (click.UsageError("wrong"), 2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_failure_in_json_is_one_document_on_stdout(error: BaseException, code: int) -> None:
    done = CliRunner().invoke(raising(error), ["--output", "json"])
    assert done.exit_code == code
    assert json.loads(done.stdout)["error"]["exit_code"] == code


@pytest.mark.parametrize("arguments", [["--output", "json", "--nonsense"], ["a", "b", "c", "--output=json"]])
def test_a_command_line_that_cannot_be_parsed_is_json_where_json_was_asked_for(arguments: list[str]) -> None:
    done = CliRunner().invoke(cli, ["check", *arguments])
    assert done.exit_code == 2
    assert json.loads(done.stdout)["error"]["exit_code"] == 2
    assert "Usage:" in done.stderr


def test_what_the_system_refuses_is_told_in_its_words() -> None:
    done = CliRunner().invoke(raising(OSError(errno.ENOSPC, "No space left on device", "/full/[x]")))
    assert done.exit_code == 1
    assert "error: /full/[x]: No space left on device" in done.stderr
    assert "unexpected" not in done.stderr


@pytest.mark.parametrize("output", ["human", "json", "quiet"])
def test_a_full_disk_behind_stdout_is_told_on_stderr(output: str) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "trtspec", "rules", "--output", output]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: No space left on device")
    assert "Traceback" not in done.stderr


def test_what_stdout_cannot_hold_is_escaped(tmp_path: Path) -> None:
    """Half a surrogate pair in a config.json, and a terminal that knows ASCII only."""
    for role in ("target", "draft"):
        (tmp_path / role).mkdir()
        (tmp_path / role / "config.json").write_text('{"architectures": ["\\ud800é"]}')
    folders = ["--target", str(tmp_path / "target"), "--draft", str(tmp_path / "draft")]
    for encoding in ("utf-8", "ascii"):
        for output in ("human", "json", "quiet"):
            command = [sys.executable, "-m", "trtspec", "check", "--output", output, *folders]
            variables = {**os.environ, "PYTHONIOENCODING": encoding}
            done = subprocess.run(command, capture_output=True, env=variables, cwd=tmp_path, check=False)
            assert done.returncode == 3, done.stderr
            if output == "json":
                assert json.loads(done.stdout)["checkpoints"]["target"]["architecture"] == "\ud800é"


def test_a_terminal_without_columns_is_taken_for_a_usual_one() -> None:
    done = CliRunner().invoke(cli, ["check", "nothing.yaml"], env={"COLUMNS": "0"})
    assert "nothing.yaml: no such file" in done.stderr
    assert "H100" in CliRunner().invoke(cli, ["plan", "--gpus"], env={"COLUMNS": "0"}).stdout


@pytest.mark.parametrize("output", ["human", "quiet"])
def test_a_checkpoint_cannot_steer_the_terminal(tmp_path: Path, output: str) -> None:
    name = "\x1b[31mRed\x07\u202e\x9b"
    for role in ("target", "draft"):
        (tmp_path / role).mkdir()
        (tmp_path / role / "config.json").write_text(
            json.dumps({"architectures": [name], "rope_scaling": {"type": name}})
        )
    folders = ["--target", str(tmp_path / "target"), "--draft", str(tmp_path / "draft")]
    done = CliRunner().invoke(cli, ["check", "--output", output, *folders])
    assert not set("\x1b\x07\u202e\x9b") & set(done.output)
    assert output == "quiet" or "\\x1b[31mRed\\x07\\u202e\\x9b" in done.stdout


def test_a_mistyped_command_names_the_nearest() -> None:
    assert "Did you mean 'build'?" in CliRunner().invoke(cli, ["bild"]).stderr
    other = CliRunner().invoke(cli, ["xyzzy"])
    assert other.exit_code == 2
    assert "Did you mean" not in other.stderr


def test_an_interruption_before_a_command_runs_is_one_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("trtspec.cli.main.importlib.import_module", interrupted)
    result = CliRunner().invoke(cli, ["check"])
    assert result.exit_code == 130
    assert result.stderr == "interrupted\n"


def test_an_error_does_not_command_the_terminal() -> None:
    @make_command(epilog=examples("trtspec x"))
    def failing(_sink: Sink) -> None:
        raise errors.BuildError("\x1b[2Jmessage \x9b31m[bold]", where="/a\x07b", fix="\x1b]0;title\x07do")

    stderr = CliRunner().invoke(failing, []).stderr
    assert stderr == "error: /ab: message [bold]\nnext: do\n"
