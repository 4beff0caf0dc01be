from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.builders import toy_spec
from tests.conftest import ServeRepository, triton_processes
from tests.serving.frontend_model import scripted_frontend
from trtspec.cli.ask import _arguments
from trtspec.cli.main import cli
from trtspec.serving import RunningServer, free_ports, repository_plan, running_arm, start_server
from trtspec.serving.plan import Listening
from trtspec.serving.security import AdminKey
from trtspec.spec import SpecFile, load_spec

PROMPT = "What is up?"
TEMPLATED = f"<|im_start|>user\n{PROMPT}<|im_end|>\n<|im_start|>assistant\n"
SAFE = "green also \ufffd[31mplain"


def run(*arguments: str, **options: Any) -> Any:
    return CliRunner().invoke(cli, ["ask", *arguments], **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ask")


@pytest.fixture(scope="module")
def server(serve_repository: ServeRepository, folder: Path) -> Iterator[RunningServer]:
    """A running frontend that was generated for the baseline arm of the deployment in `folder`."""
    with serve_repository(
        scripted_frontend(folder / "repo", folder / "engines" / "toy" / "baseline" / "key")
    ) as running:
        yield running


@pytest.fixture(scope="module")
def spec_file(server: RunningServer, folder: Path) -> SpecFile:
    """The deployment whose ports are those of the running server."""
    http, grpc, metrics = (port for _, port in server.ports.items())
    return toy_spec(folder, serving={"http_port": http, "grpc_port": grpc, "metrics_port": metrics})


def received(text: str) -> dict[str, Any]:
    """The inputs that reached the frontend, which the answer begins with."""
    data: dict[str, Any] = json.loads(text.splitlines()[0])
    return data


@pytest.mark.triton
def test_plain_text_where_stdout_is_no_terminal(spec_file: SpecFile) -> None:
    result = run(str(spec_file.path), PROMPT, "--max-tokens", "9", "--draft-length", "3")
    assert result.exit_code == 0, result.stderr
    assert received(result.stdout) == {
        "text_input": TEMPLATED,
        "max_tokens": 9,
        "stream": True,
        "num_draft_tokens": 3,
        "return_token_details": True,
    }
    # to a file goes what the model said, byte for byte
    assert result.stdout.splitlines()[1] == " green also \x1b[31mplain"
    assert result.stdout.endswith("plain\n")
    counted = "4 tokens · 2 rounds · 8 drafted · 2 accepted · acceptance rate 0.25 · mean acceptance length 2.00"
    assert counted in result.stderr
    assert re.search(r"first after [\d.]+ ms · [\d.]+ tokens/s · ended by stop", result.stderr)


@pytest.mark.triton
def test_every_option_reaches_the_server(spec_file: SpecFile) -> None:
    options = [
        "--raw",
        "--temperature",
        "0.5",
        "--seed",
        "11",
        "--draft-length",
        "0",
        "--top-p",
        "0.25",
        "--top-k",
        "7",
    ]
    result = run(str(spec_file.path), PROMPT, *options, "--stop", "five", "--stop", "\n\n")
    given = received(result.stdout)
    assert given["text_input"] == PROMPT
    assert given["temperature"] == 0.5
    assert given["seed"] == 11
    assert (given["top_p"], given["top_k"]) == (0.25, 7)
    assert given["stop_words"] == ["five", "\n\n"]
    assert given["num_draft_tokens"] == 0
    assert given["max_tokens"] == 256


@pytest.mark.triton
def test_json(spec_file: SpecFile) -> None:
    result = run(str(spec_file.path), PROMPT, "--output", "json")
    data = json.loads(result.stdout)
    assert data["schema"] == 1
    assert data["arm"] == "baseline"
    assert data["started"] is False
    assert data["prompt"] == TEMPLATED
    assert data["text"].endswith(" green also \x1b[31mplain")
    assert [token["drafted"] for token in data["tokens"]] == [False, True, True, False]
    assert data["acceptance_rate"] == 0.25
    assert data["mean_acceptance_length"] == 2.0
    assert data["acceptance_histogram"] == [0, 2]
    assert 0 < data["time_to_first_token"] <= data["request_latency"]
    assert data["finish_reason"] == "stop"


@pytest.mark.triton
def test_quiet_prints_the_answer_only(spec_file: SpecFile) -> None:
    result = run(str(spec_file.path), PROMPT, "--output", "quiet")
    assert result.stdout.endswith("green also \x1b[31mplain\n")
    assert result.stderr == ""


@pytest.mark.triton
def test_a_prompt_on_stdin_and_a_url(spec_file: SpecFile, server: RunningServer) -> None:
    result = run(str(spec_file.path), "-", "--url", server.grpc_url, "--raw", input="from stdin")
    assert received(result.stdout)["text_input"] == "from stdin"


@pytest.mark.triton
def test_the_default_spec(spec_file: SpecFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(spec_file.root)
    assert received(run(PROMPT).stdout)["text_input"] == TEMPLATED


@pytest.mark.triton
def test_an_error_of_the_server_is_one_line(spec_file: SpecFile) -> None:
    result = run(str(spec_file.path), "fail")
    assert result.exit_code == 1
    assert "99 tokens, at most 64 fit" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.triton
def test_an_answer_that_does_not_come(spec_file: SpecFile, serve_repository: ServeRepository, tmp_path: Path) -> None:
    with serve_repository(scripted_frontend(tmp_path / "repo")) as other:
        begin = time.monotonic()
        result = run(str(spec_file.path), "hang", "--timeout", "1", "--url", other.grpc_url)
        assert time.monotonic() - begin < 10
    assert result.exit_code == 1
    assert "no complete answer within 1 s" in result.stderr


def test_nobody_at_the_url(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    result = run(str(spec_file.path), PROMPT, "--url", f"127.0.0.1:{free_ports().grpc}")
    assert result.exit_code == 5
    assert "next: trtspec serve" in result.stderr


def test_url_and_arm_exclude_each_other(tmp_path: Path) -> None:
    result = run(str(toy_spec(tmp_path).path), PROMPT, "--url", "127.0.0.1:1", "--arm", "baseline")
    assert result.exit_code == 2


@pytest.mark.triton
def test_the_arm_behind_a_server_is_known(server: RunningServer, spec_file: SpecFile, tmp_path: Path) -> None:
    assert running_arm(spec_file, server.grpc_url) == "baseline"
    assert running_arm(toy_spec(tmp_path), server.grpc_url) is None
    assert running_arm(spec_file, f"127.0.0.1:{free_ports().grpc}") is None


@pytest.mark.triton
def test_a_server_that_tells_its_configuration_to_administrators_alone(spec_file: SpecFile, tmp_path: Path) -> None:
    """As every server beyond loopback does; requests are open."""
    listening, repository = Listening("0.0.0.0", None), scripted_frontend(tmp_path / "repo")
    plan = repository_plan(repository, free_ports(), log=tmp_path / "log", listening=listening, admin=AdminKey("key"))
    with start_server(plan, ready_timeout=60) as server:
        answer = run(str(spec_file.path), PROMPT, "--raw", "--url", server.grpc_url, "--output", "json")
        assert answer.exit_code == 0, answer.stderr
        assert json.loads(answer.stdout)["arm"] is None
        server.stop(now=True)


@pytest.mark.triton
def test_another_arm_is_started_for_the_question(spec_file: SpecFile) -> None:
    repository = scripted_frontend(spec_file.repository("speculative"))
    before = {process.pid for process in triton_processes()}
    result = run(str(spec_file.path), PROMPT, "--arm", "speculative", "--output", "json")
    assert result.exit_code == 0, result.stderr
    data = json.loads(result.stdout)
    assert (data["arm"], data["started"]) == ("speculative", True)
    assert "starting one" in result.stderr
    assert {process.pid for process in triton_processes()} == before
    assert {path.name for path in repository.parent.iterdir()} == {"speculative", "speculative.ask.log"}


def test_without_server_and_repository(tmp_path: Path) -> None:
    http, grpc, metrics = (port for _, port in free_ports().items())
    spec_file = toy_spec(tmp_path, serving={"http_port": http, "grpc_port": grpc, "metrics_port": metrics})
    result = run(str(spec_file.path), PROMPT)
    assert result.exit_code == 2
    assert f"next: trtspec repo {spec_file.path}" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Missing argument"),
        (["trtspec.yaml"], "there is no prompt"),
        (["hello", "world"], "put the prompt in quotes"),
        (["trtspec.yaml", "hello", "world"], "put the prompt in quotes"),
        (["   "], "the prompt is empty"),
    ],
)
def test_arguments_that_make_no_sense(words: list[str], message: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_spec_and_prompt_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deployment").write_text("")
    assert _arguments(("hello",)) == (Path("trtspec.yaml"), "hello")
    assert _arguments(("other.yaml", "hello")) == (Path("other.yaml"), "hello")
    assert _arguments(("deployment", "hello")) == (Path("deployment"), "hello")


def on_terminal(argv: list[str], environment: dict[str, str], interrupt_after: str | None = None) -> tuple[str, int]:
    """stdout of a command that runs on a terminal, and its exit code."""
    master, slave = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", **environment}
    process = subprocess.Popen(argv, stdout=slave, stderr=subprocess.PIPE, env=env)
    os.close(slave)
    shown = b""
    while select.select([master], [], [], 30)[0]:
        try:
            data = os.read(master, 4096)
        except OSError:
            break
        if not data:
            break
        shown += data
        if interrupt_after and interrupt_after.encode() in shown:
            process.send_signal(signal.SIGINT)
            interrupt_after = None
    os.close(master)
    process.communicate(timeout=30)
    return shown.decode(), process.returncode


@pytest.mark.triton
def test_accepted_tokens_are_coloured_on_a_terminal(spec_file: SpecFile) -> None:
    argv = [sys.executable, "-m", "trtspec", "ask", str(spec_file.path), PROMPT]
    shown, code = on_terminal(argv, {})
    assert code == 0
    # the text is cut where the server cut it, inside a token; its own control sequences do not reach the terminal
    assert re.sub(r"\x1b\[(32|0)m", "", shown).endswith(f"{SAFE}\r\n")
    green = "".join(re.findall(r"\x1b\[32m(.*?)\x1b\[0m", shown))
    assert green == " green also"


@pytest.mark.triton
def test_no_color_is_respected(spec_file: SpecFile) -> None:
    argv = [sys.executable, "-m", "trtspec", "ask", str(spec_file.path), PROMPT]
    shown, code = on_terminal(argv, {"NO_COLOR": "1"})
    assert code == 0
    assert "\x1b" not in shown


@pytest.mark.triton
def test_ctrl_c_while_the_server_starts(tmp_path: Path) -> None:
    http, grpc, metrics = (port for _, port in free_ports().items())
    spec_file = toy_spec(tmp_path, serving={"http_port": http, "grpc_port": grpc, "metrics_port": metrics})
    repository = scripted_frontend(spec_file.repository("speculative"))
    model = repository / "tensorrt_llm_bls" / "1" / "model.py"
    model.write_text("import time; time.sleep(60)\n" + model.read_text())
    argv = [sys.executable, "-m", "trtspec", "ask", str(load_spec(spec_file.path).path), PROMPT]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "starting one" in process.stderr.readline()
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(15) == 130
        assert "Traceback" not in process.stderr.read()
    assert not [p for p in triton_processes() if str(tmp_path) in " ".join(p.cmdline())]
