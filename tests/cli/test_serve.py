from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from tests.builders import toy_spec
from tests.serving.models import ECHO, model_repository
from trtspec.cli.main import cli
from trtspec.serving import free_ports
from trtspec.serving.ports import is_free
from trtspec.spec import SpecFile

PORT_OPTIONS = ("--http-port", "--grpc-port", "--metrics-port")


def deployment(folder: Path, code: str | None = ECHO, *, request_timeout: float = 5) -> SpecFile:
    """A toy spec on free ports whose speculative repository is one echo model (none without `code`).

    Triton sometimes counts a connection that its client has closed, and then takes its whole exit timeout to end (seen
    with 2.51 on a busy machine); that follows from `request_timeout`, as there is no frontend to be drained.
    """
    http, grpc, metrics = (port for _, port in free_ports().items())
    serving = {"http_port": http, "grpc_port": grpc, "metrics_port": metrics, "request_timeout": request_timeout}
    spec_file = toy_spec(folder, serving=serving)
    if code is not None:
        model_repository(spec_file.repository("speculative"), code)
    return spec_file


def run(*arguments: str) -> Any:
    return CliRunner().invoke(cli, ["serve", *arguments])


def test_dry_run_shows_what_would_start(tmp_path: Path) -> None:
    spec_file = deployment(tmp_path, code=None)
    result = run(str(spec_file.path), "--arm", "baseline", "--dry-run", "--output", "json", "--http-port", "18000")
    assert result.exit_code == 0
    data = json.loads(result.stdout)
    assert data["schema"] == 1
    assert data["ports"]["http"] == 18000
    assert data["ports"]["grpc"] == spec_file.spec.serving.grpc_port
    assert "--http-port=18000" in data["argv"]
    assert f"--model-repository={tmp_path}/model_repo/toy/baseline" in data["argv"]
    assert data["env"]["HF_HUB_OFFLINE"] == "1"
    assert not (tmp_path / "model_repo").exists()


def test_dry_run_for_people_can_be_pasted(tmp_path: Path) -> None:
    result = run(str(deployment(tmp_path, code=None).path), "--dry-run")
    assert result.exit_code == 0
    script = result.stdout.replace("tritonserver \\\n", "tritonserver --help \\\n")
    shown = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert "--http-address" in shown.stdout + shown.stderr


def test_a_dry_run_before_there_is_a_repository_says_so(tmp_path: Path) -> None:
    result = run(str(deployment(tmp_path, code=None).path), "--dry-run")
    assert result.exit_code == 0
    assert "there is no repository yet" in result.stderr
    assert "--model-repository=" in result.stdout
    assert "no repository yet" not in run(str(deployment(tmp_path / "made").path), "--dry-run").stderr


def test_without_a_repository_the_next_command_is_told(tmp_path: Path) -> None:
    spec_file = deployment(tmp_path, code=None)
    result = run(str(spec_file.path))
    assert result.exit_code == 2
    assert "there is no model repository for the speculative arm" in result.stderr
    assert f"next: trtspec repo {spec_file.path}" in result.stderr


def test_the_same_port_twice(tmp_path: Path) -> None:
    path = str(deployment(tmp_path).path)
    assert run(path, "--http-port", "18000", "--grpc-port", "18000").exit_code == 2


def test_ports_that_both_arms_would_take(tmp_path: Path) -> None:
    path = str(deployment(tmp_path, code=None).path)
    given = ("--http-port", "18000", "--grpc-port", "18010", "--metrics-port", "18002", "--dry-run")
    result = run(path, "--both", *given)
    assert result.exit_code == 2
    assert "port 18010 would be grpc of the speculative arm and http of the baseline arm" in result.stderr
    assert run(path, *given).exit_code == 0


def test_a_port_in_use(tmp_path: Path) -> None:
    spec_file = deployment(tmp_path)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", spec_file.spec.serving.grpc_port))
        listener.listen()
        result = run(str(spec_file.path))
    assert result.exit_code == 5
    assert f"port {spec_file.spec.serving.grpc_port} is in use by" in result.stderr
    assert "--grpc-port" in result.stderr


@pytest.mark.triton
def test_a_broken_model_shows_log_cause_and_fix(tmp_path: Path) -> None:
    spec_file = deployment(tmp_path, "import nosuchmodule\n" + ECHO)
    result = run(str(spec_file.path))
    assert result.exit_code == 5
    assert "| " in result.stderr
    assert "likely cause: the model's code imports nosuchmodule" in result.stderr
    assert "next: pip install 'trtspec[local]'" in result.stderr


@contextmanager
def serving(spec_file: SpecFile, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """`trtspec serve --output json` in a process of its own, and what it printed when it was ready."""
    argv = [sys.executable, "-m", "trtspec", "serve", str(spec_file.path), "--output", "json", *arguments]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline()]
            while lines[-1] and lines[-1] != "}\n":
                lines.append(process.stdout.readline())
            yield process, json.loads("".join(lines))
        finally:
            process.kill()


def gone(pids: list[int], seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(psutil.pid_exists(pid) for pid in pids):
        time.sleep(0.1)
    return not any(psutil.pid_exists(pid) for pid in pids)


def family(data: dict[str, Any]) -> list[int]:
    return [data["pid"], *(child.pid for child in psutil.Process(data["pid"]).children(recursive=True))]


@pytest.mark.triton
@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_it_serves_until_it_is_told_to_stop(tmp_path: Path, sign: int, code: int) -> None:
    spec_file = deployment(tmp_path)
    with serving(spec_file) as (process, data):
        assert data["models"] == ["echo"]
        with urllib.request.urlopen(f"{data['urls']['http']}/v2/models/echo/ready", timeout=10) as answer:
            assert answer.status == 200
        pids = family(data)
        process.send_signal(sign)
        assert process.wait(60) == code
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
    assert gone(pids, 0.5)
    assert is_free("127.0.0.1", spec_file.spec.serving.http_port)


@pytest.mark.triton
def test_a_second_ctrl_c_ends_it_at_once(tmp_path: Path) -> None:
    code = ECHO + "\n    def finalize(self):\n        import time\n        time.sleep(600)\n"
    with serving(deployment(tmp_path, code, request_timeout=600)) as (process, data):
        pids = family(data)
        process.send_signal(signal.SIGINT)
        time.sleep(0.7)
        process.send_signal(signal.SIGINT)
        # one alone waits for the model, for as long as running requests may take
        assert process.wait(60) == 130
    assert gone(pids, 0.5)


@pytest.mark.triton
def test_nothing_outlives_a_killed_command(tmp_path: Path) -> None:
    spec_file = deployment(tmp_path)
    with serving(spec_file) as (process, data):
        pids = family(data)
        assert len(pids) == 2
        process.kill()
        process.wait(10)
    assert gone(pids)
    assert is_free("127.0.0.1", spec_file.spec.serving.http_port)


@pytest.mark.triton
@pytest.mark.parametrize("victim", ["server", "model"])
def test_what_dies_is_started_again_and_status_says_so(tmp_path: Path, victim: str) -> None:
    spec_file = deployment(tmp_path)

    def restarted() -> dict[str, int]:
        (server, *_) = json.loads(CliRunner().invoke(cli, ["status", str(spec_file.path), "--output", "json"]).stdout)[
            "servers"
        ] or [{}]
        found: dict[str, int] = server.get("restarts") or {}
        return found if server.get("ready") else {}

    with serving(spec_file) as (process, data):
        pids = family(data)
        os.kill(pids[0 if victim == "server" else 1], signal.SIGKILL)
        deadline = time.monotonic() + 60
        while not (found := restarted()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert found == ({"server": 1} if victim == "server" else {"echo": 1})
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr is not None
        message = process.stderr.read()
    expected = "the server ended (signal 9); it is" if victim == "server" else "the process of model echo died; it is"
    assert expected in message
    assert gone(pids, 0.5)


@pytest.mark.triton
def test_it_ends_with_exit_5_when_somebody_ends_the_server(tmp_path: Path) -> None:
    with serving(deployment(tmp_path)) as (process, data):
        pids = family(data)
        os.kill(data["pid"], signal.SIGTERM)
        assert process.wait(60) == 5
        assert process.stderr is not None
        assert "the server ended (" in process.stderr.read()
    assert gone(pids, 0.5)


@pytest.mark.triton
def test_the_ready_box_has_urls_and_an_example(tmp_path: Path) -> None:
    spec_file = deployment(tmp_path)
    argv = [sys.executable, "-m", "trtspec", "serve", str(spec_file.path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        shown = ""
        while "curl" not in shown:
            line = process.stdout.readline()
            assert line, shown
            shown += line
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    http = f"127.0.0.1:{spec_file.spec.serving.http_port}"
    assert f"http://{http}" in shown
    assert f"curl -N {http}/v2/models/tensorrt_llm_bls/generate_stream -d '" in shown
    body = json.loads(shown.partition("-d '")[2].partition("'")[0])
    assert body["stream"] is True


def test_dry_run_with_tensorrt_engines_needs_nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.repository.tensorrt import tensorrt_spec

    monkeypatch.setenv("PATH", str(tmp_path))
    spec_file = tensorrt_spec(tmp_path, target={"tp": 4}, hardware={"gpu": "H100-80GB-SXM", "count": 4})
    result = run(str(spec_file.path), "--dry-run", "--output", "json")
    assert result.exit_code == 0, result.stderr
    data = json.loads(result.stdout)
    assert data["argv"][:2] == ["docker", "run"]
    assert data["with"] == "docker"
    assert (data["launch"]["mode"], data["launch"]["world_size"], data["launch"]["processes"]) == ("orchestrator", 1, 6)
    assert data["load_order"] == ["tensorrt_llm_draft", "tensorrt_llm", "tensorrt_llm_bls"]
    assert "there is no repository yet" in result.stderr
    shown = run(str(spec_file.path), "--dry-run").stdout
    assert "/v2/repository/models/tensorrt_llm_draft/load" in shown


def test_a_world_size_that_contradicts_the_engines(tmp_path: Path) -> None:
    from tests.repository.tensorrt import tensorrt_spec

    spec_file = tensorrt_spec(tmp_path, target={"tp": 2})
    result = run(str(spec_file.path), "--arm", "baseline", "--dry-run", "--launch", "leader", "--world-size", "1")
    assert result.exit_code == 2
    assert "leader mode starts 2 ranks" in result.stderr


def test_both_arms_in_a_dry_run(tmp_path: Path) -> None:
    spec_file = deployment(tmp_path, code=None)
    data = json.loads(run(str(spec_file.path), "--both", "--dry-run", "--output", "json").stdout)
    first, second = data["arms"]["speculative"]["ports"], data["arms"]["baseline"]["ports"]
    assert {name: port - first[name] for name, port in second.items()} == {"http": 10, "grpc": 10, "metrics": 10}
