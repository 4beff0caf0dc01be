from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.builders import toy_spec
from trtspec.progress import SilentReporter
from trtspec.serving.attach import some_server
from trtspec.serving.running import Stated
from trtspec.serving.state import ServerState, open_state, process_birth, running_states, state_path
from trtspec.serving.status import EndpointStatus, ServerStatus, spec_status

PORTS = {"http": 8000, "grpc": 8001, "metrics": 8002}


def state(**changes: Any) -> ServerState:
    """This process, as if it were a server."""
    values: dict[str, Any] = {
        "arm": "baseline",
        "pid": os.getpid(),
        "born": process_birth(os.getpid()),
        "way": "embedded",
        "addresses": dict.fromkeys(PORTS, "0.0.0.0"),
        "ports": PORTS,
        "models": ["tensorrt_llm_bls"],
        "started": time.time(),
        "phase": "ready",
        "log": "log",
        "admin": "secret",
    }
    return ServerState(**{**values, **changes})


def test_it_is_found_while_it_runs_and_gone_afterwards(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    path = state_path(spec_file, "baseline")
    path.parent.mkdir(parents=True)
    with open_state(path, state()):
        assert running_states(spec_file) == [state(started=running_states(spec_file)[0].started)]
        assert path.stat().st_mode & 0o077 == 0  # it holds the key
        with some_server(spec_file, None, SilentReporter()) as endpoint:
            assert (endpoint.url, endpoint.arm, endpoint.started) == ("127.0.0.1:8001", "baseline", False)
    assert not path.exists()
    assert running_states(spec_file) == []


def test_a_process_that_took_the_number_over_is_not_the_server(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    path = state_path(spec_file, "baseline")
    path.parent.mkdir(parents=True)
    with open_state(path, state(born="1.0")):
        assert running_states(spec_file) == []
    with open_state(path, state(pid=2**22 - 1)):
        assert running_states(spec_file) == []


def test_files_that_are_damaged_are_no_servers(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    path = state_path(spec_file, "baseline")
    path.parent.mkdir(parents=True)
    for text in ("", "[]", "{}", json.dumps({"schema": 1, "arm": "baseline"})):
        path.write_text(text)
        assert running_states(spec_file) == []


def test_a_folder_that_cannot_be_written_does_not_stop_serving(tmp_path: Path) -> None:
    with open_state(tmp_path / "none" / "state.json", state()):
        pass


def test_what_changes_while_it_serves_is_told_and_the_rest_stays(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    path = state_path(spec_file, "baseline")
    path.parent.mkdir(parents=True)
    begin = time.time() - 100
    with open_state(path, state(started=begin)) as first:
        stated = Stated(path, first)
        stated.change(openai="http://127.0.0.1:1/v1")
        stated.change(phase="draining")
        (server,) = [server for server in spec_status(spec_file) if server.source == "state"]
    assert server.phase == "draining"
    assert server.openai == EndpointStatus("http://127.0.0.1:1/v1", live=False, ready=False)
    assert server.uptime_seconds is not None
    assert server.uptime_seconds >= 100


def test_an_endpoint_that_is_not_well_is_no_good_server() -> None:
    server = ServerStatus("state", "127.0.0.1:8000", "127.0.0.1:8002", live=True, ready=True, models=())
    assert server.well
    for ready in (True, False):
        endpoint = EndpointStatus("http://127.0.0.1:9000/v1", live=True, ready=ready)
        assert replace(server, openai=endpoint).well == ready


def test_with_tls_clients_are_told_the_certificate() -> None:
    assert state(tls="/certs/cert.pem").grpc_url == "grpcs://127.0.0.1:8001#/certs/cert.pem"
