"""`trtspec serve --openai-port`: the endpoint starts, is watched and ends with the server."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import socket
import time
from pathlib import Path
from typing import Any

import openai
import psutil
import pytest
from click.testing import CliRunner

from tests.cli.test_serve import deployment, gone, run, serving
from tests.serving.certificates import self_signed
from tests.serving.toy import build_toy
from trtspec.cli.main import cli
from trtspec.serving import free_ports
from trtspec.serving.health import answers
from trtspec.serving.ports import is_free
from trtspec.spec import SpecFile


def endpoint_pids(pid: int) -> list[int]:
    """Supervisor and server of the endpoint below a running `trtspec serve`."""
    children = psutil.Process(pid).children(recursive=True)
    return [child.pid for child in children if any("trtspec.openai_api" in word for word in child.cmdline())]


@pytest.mark.triton
def test_a_toy_is_served_to_the_official_client(tmp_path: Path) -> None:
    spec_file = build_toy(tmp_path)
    port = free_ports().http
    with serving(spec_file, "--openai-port", str(port), "--no-warmup") as (process, data):
        assert data["urls"]["openai"] == f"http://127.0.0.1:{port}/v1"
        pids = endpoint_pids(process.pid)
        assert len(pids) == 2
        with openai.OpenAI(base_url=data["urls"]["openai"], api_key="unused", max_retries=0) as client:
            assert client.models.list().data[0].id == "toy"
            answer = client.chat.completions.create(model="toy", messages=[{"role": "user", "content": "hello"}])
            assert answer.choices[0].message.content
        code, endpoint = told(spec_file)
        assert (code, endpoint["openai"]) == (0, {"url": data["urls"]["openai"], "live": True, "ready": True})
        human = CliRunner().invoke(cli, ["status", str(spec_file.path)]).stdout
        assert re.search(rf"openai +{data['urls']['openai']} ready", human)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
    assert gone(pids, 0.5)
    assert is_free("127.0.0.1", port)
    (log,) = (tmp_path / "model_repo" / "toy").glob("*openai*.log")
    assert "ERROR" not in log.read_text()


def told(spec_file: SpecFile) -> tuple[int, dict[str, Any]]:
    """Exit code and server of `trtspec status`."""
    result = CliRunner().invoke(cli, ["status", str(spec_file.path), "--output", "json"])
    (server,) = [server for server in json.loads(result.stdout)["servers"] if server["source"] == "state"]
    return result.exit_code, server


@pytest.mark.triton
@pytest.mark.parametrize("names", ["IP:127.0.0.1", "DNS:gpu1.example"])
def test_before_a_server_with_tls(tmp_path: Path, names: str) -> None:
    """Also with a certificate that is not for the address at which the endpoint finds the server."""
    certificate, key = self_signed(tmp_path / "tls", names, "/CN=somebody")
    path, port = build_toy(tmp_path).path, free_ports().http
    text = f"serving:\n  openai_port: {port}\n  tls_certificate: {certificate}\n  tls_key: {key}\n"
    path.write_text(path.read_text().replace("serving:\n", text))
    with serving(spec_of(path), "--no-warmup") as (process, data):
        assert data["urls"]["grpc"].startswith("grpcs://127.0.0.1:")
        with openai.OpenAI(base_url=data["urls"]["openai"], api_key="unused", max_retries=0) as client:
            request: dict[str, Any] = {"model": "toy", "prompt": "hello world", "max_tokens": 24}
            whole = client.completions.create(**request).choices[0].text
            assert whole
            assert (
                "".join(chunk.choices[0].text for chunk in client.completions.create(**request, stream=True)) == whole
            )
        code, endpoint = told(spec_of(path))
        assert (code, endpoint["openai"]["ready"]) == (0, True)
        asked = CliRunner().invoke(cli, ["ask", str(path), "hello world", "--raw", "--max-tokens", "24"])
        assert asked.stdout.strip() == whole.strip()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def asked(client: openai.OpenAI, request: dict[str, Any]) -> int:
    """The status of a short request."""
    try:
        client.completions.create(**request, max_tokens=1)
    except openai.APIStatusError as error:
        return error.status_code
    return 200


@pytest.mark.triton
def test_the_end_lets_a_stream_finish_and_refuses_new_requests(tmp_path: Path) -> None:
    spec_file, port = build_toy(tmp_path), free_ports().http
    request: dict[str, Any] = {"model": "toy", "prompt": "hello world"}
    with serving(spec_file, "--openai-port", str(port), "--no-warmup") as (process, data):
        with openai.OpenAI(base_url=data["urls"]["openai"], api_key="unused", max_retries=0) as client:
            stream = client.completions.create(**request, max_tokens=490, stream=True)
            next(iter(stream))
            process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + 30
            while (status := asked(client, request)) == 200:
                assert time.monotonic() < deadline
            assert status == 503
            assert list(stream)[-1].choices[0].finish_reason == "length"
        assert process.wait(60) == 0


@pytest.mark.triton
def test_the_specs_port_holds_and_after_its_death_too(tmp_path: Path) -> None:
    port = free_ports().http
    path = deployment(tmp_path).path
    path.write_text(path.read_text().replace("serving:\n", f"serving:\n  openai_port: {port}\n"))
    with serving(spec_of(path)) as (process, data):
        assert answers("127.0.0.1", port, "/health/live")
        pids = [data["pid"], *endpoint_pids(process.pid)]
        os.kill(pids[-1], signal.SIGKILL)
        deadline = time.monotonic() + 60
        while told(spec_of(path))[1]["restarts"] != {"openai": 1}:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert answers("127.0.0.1", port, "/health/live")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert "the OpenAI-compatible endpoint ended; it is started again now" in process.stderr.read()
    assert gone(pids, 0.5)


def spec_of(path: Path) -> Any:
    from trtspec.spec import load_spec

    return load_spec(path)


def test_a_dry_run_names_the_port(tmp_path: Path) -> None:
    path = str(deployment(tmp_path).path)
    with_it = run(path, "--dry-run", "--output", "json", "--openai-port", "19000")
    assert json.loads(with_it.stdout)["openai_port"] == 19000
    both = json.loads(run(path, "--both", "--dry-run", "--output", "json", "--openai-port", "19000").stdout)
    assert {arm: plan["openai_port"] for arm, plan in both["arms"].items()} == {"speculative": 19000, "baseline": 19010}
    assert json.loads(run(path, "--dry-run", "--output", "json").stdout)["openai_port"] is None
    assert "OpenAI-compatible endpoint on port 19000" in run(path, "--dry-run", "--openai-port", "19000").stdout


def test_its_port_must_be_its_own(tmp_path: Path) -> None:
    spec_file = deployment(tmp_path)
    result = run(str(spec_file.path), "--openai-port", str(spec_file.spec.serving.grpc_port))
    assert result.exit_code == 2
    assert "port of its own" in result.stderr


def test_a_port_in_use_is_told_before_anything_starts(tmp_path: Path) -> None:
    spec_file = deployment(tmp_path)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        result = run(str(spec_file.path), "--openai-port", str(port))
    assert result.exit_code == 5
    assert f"port {port} is in use by" in result.stderr
    assert not list((tmp_path / "model_repo").rglob("*.log"))


@pytest.mark.parametrize(
    ("host", "key", "told"), [("0.0.0.0", "", True), ("0.0.0.0", "k", False), ("127.0.0.1", "", False)]
)
def test_an_open_endpoint_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, key: str, told: bool
) -> None:
    path = deployment(tmp_path).path
    path.write_text(path.read_text().replace("serving:\n", f"serving:\n  host: {host}\n"))
    monkeypatch.setenv("TRTSPEC_API_KEY", key)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", spec_of(path).spec.serving.grpc_port))
        listener.listen()  # so that the start ends here
        result = run(str(path), "--openai-port", str(free_ports().http))
    assert result.exit_code == 5
    assert ("TRTSPEC_API_KEY sets a key" in result.stderr.replace("\n", " ")) == told


def test_without_the_extra_the_install_command_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, find = str(deployment(tmp_path).path), importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "fastapi" else find(name))
    result = run(path, "--openai-port", "19000")
    assert result.exit_code == 1
    assert "next: pip install 'trtspec[openai]'" in result.stderr
