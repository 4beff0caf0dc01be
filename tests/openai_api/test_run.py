"""Starting and ending the endpoint's process."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import sys
import threading
from pathlib import Path

import openai
import psutil
import pytest

from tests.openai_api.conftest import MODELS
from trtspec.errors import EnvironmentMissing, PortInUse, ServerNotReady
from trtspec.openai_api import OpenaiServer, Settings, check_openai, openai_server
from trtspec.serving import RunningServer, free_ports
from trtspec.serving.ports import is_free


@pytest.fixture
def settings() -> Settings:
    """Nothing behind it."""
    ports = free_ports()
    return Settings(ports.http, f"127.0.0.1:{ports.grpc}", f"127.0.0.1:{ports.metrics}")


def processes(server: OpenaiServer) -> list[psutil.Process]:
    found = [child for child in psutil.Process().children(recursive=True) if is_endpoint(child, server)]
    assert found
    return found


def is_endpoint(process: psutil.Process, server: OpenaiServer) -> bool:
    argv = process.cmdline()
    return "trtspec.openai_api" in argv and server.settings.to_text() in argv


def test_settings_pass_a_command_line(settings: Settings) -> None:
    assert Settings.from_text(settings.to_text()) == settings


def test_nothing_is_left_after_the_block(settings: Settings, tmp_path: Path) -> None:
    with openai_server(settings, log=tmp_path / "sub" / "openai.log") as server:
        assert server.url == f"http://127.0.0.1:{settings.port}/v1"
        assert not server.exited()
        assert not is_free("127.0.0.1", settings.port)
        ours = processes(server)
    assert not any(process.is_running() for process in ours)
    assert is_free("127.0.0.1", settings.port)
    assert "Application startup complete" in (tmp_path / "sub" / "openai.log").read_text()


def test_an_error_in_the_block_ends_it_too(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), openai_server(settings, log=tmp_path / "openai.log"):
        raise RuntimeError
    assert is_free("127.0.0.1", settings.port)


def test_its_death_is_noticed(settings: Settings, tmp_path: Path) -> None:
    with openai_server(settings, log=tmp_path / "openai.log") as server:
        (process,) = processes(server)
        os.kill(process.pid, signal.SIGKILL)
        psutil.wait_procs([process], timeout=10)
        for _ in range(100):
            if server.exited():
                break
            threading.Event().wait(0.05)
        assert server.exited()


def test_a_request_in_flight_is_finished(triton: RunningServer, tmp_path: Path) -> None:
    settings = Settings(free_ports().http, triton.grpc_url, triton.metrics_url, models=MODELS, exit_wait=60)
    with openai_server(settings, log=tmp_path / "openai.log") as server:
        client = openai.OpenAI(base_url=server.url, api_key="unused", max_retries=0)
        stream = client.completions.create(model="toy", prompt="hello world", max_tokens=300, stream=True)
        next(iter(stream))
        ending = threading.Thread(target=server.stop)
        ending.start()
        assert list(stream)[-1].choices[0].finish_reason == "length"
        client.close()
        ending.join(60)
    assert is_free("127.0.0.1", settings.port)


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "uvicorn" else object())
    with pytest.raises(EnvironmentMissing, match="needs uvicorn") as caught:
        check_openai("127.0.0.1", free_ports().http)
    assert caught.value.fix == "pip install 'trtspec[openai]'"


def test_a_port_that_is_taken(settings: Settings, tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", settings.port))
        other.listen(1)
        with pytest.raises(PortInUse) as caught, openai_server(settings, log=tmp_path / "openai.log"):
            pass
    assert caught.value.port == settings.port
    assert caught.value.fix is not None
    assert "--openai-port" in caught.value.fix


def test_what_does_not_start_is_told_with_its_log(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho no such module >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(ServerNotReady) as caught, openai_server(settings, log=tmp_path / "openai.log"):
        pass
    assert caught.value.log_tail == ("no such module",)
