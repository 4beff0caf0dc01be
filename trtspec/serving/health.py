"""Whether a server answers: its own readiness, that of its models, and its model processes."""

from __future__ import annotations

import http.client
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from trtspec.serving.ports import connect_host

if TYPE_CHECKING:
    import psutil

__all__ = ["answers", "first_unready", "process_lives", "stub_processes"]

_STUB_NAME = "triton_python_b"  # the kernel cuts names to 15 characters


def answers(host: str, port: int, path: str, *, timeout: float = 5.0) -> bool:
    """True when GET `path` gives 200 within `timeout` seconds."""
    connection = http.client.HTTPConnection(connect_host(host), port, timeout=timeout)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def first_unready(host: str, port: int, models: Iterable[str], *, timeout: float = 5.0) -> str | None:
    """None when the server and all `models` are ready, else what is not: `server` or a model's name."""
    if not answers(host, port, "/v2/health/ready", timeout=timeout):
        return "server"
    for model in models:
        if not answers(host, port, f"/v2/models/{model}/ready", timeout=timeout):
            return model
    return None


def process_lives(pid: int) -> bool:
    """False when a process is gone or a zombie."""
    import psutil

    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def stub_processes(server_pid: int) -> dict[int, str]:
    """pid → model instance of the living Python model processes below a server."""
    import psutil

    try:
        children = psutil.Process(server_pid).children(recursive=True)
    except psutil.Error:
        return {}
    models = {child.pid: _stub_model(child) for child in children}
    return {pid: model for pid, model in models.items() if model is not None}


def _stub_model(process: psutil.Process) -> str | None:
    """The model whose stub a process is; None for any other process and for a dead one."""
    import psutil

    try:
        if not process.name().startswith(_STUB_NAME) or process.status() == psutil.STATUS_ZOMBIE:
            return None
        return _instance(process.cmdline())
    except psutil.Error:
        return None


def _instance(argv: Sequence[str]) -> str:
    """The model's name out of a stub's command line `stub MODEL/1/model.py ...`."""
    parts = argv[1].split("/") if len(argv) > 1 else []
    return parts[-3] if len(parts) > 2 else "a model"
