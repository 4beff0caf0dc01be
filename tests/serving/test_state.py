from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from tests.builders import toy_spec
from trtspec.progress import SilentReporter
from trtspec.serving.attach import some_server
from trtspec.serving.state import ServerState, open_state, process_birth, running_states, state_path

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
    with open_state(path, state(born=1.0)):
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


def test_with_tls_clients_are_told_the_certificate() -> None:
    assert state(tls="/certs/cert.pem").grpc_url == "grpcs://127.0.0.1:8001#/certs/cert.pem"
