"""Fixtures that everything shares: the real Triton server on any model repository, and a toy deployment."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import psutil
import pytest
from hypothesis import settings

from tests.serving.toy import ToyDeployment, build_toy
from trtspec.errors import ServerNotReady
from trtspec.serving import RunningServer, free_ports, repository_plan, start_server

# time says nothing about a property, and a busy machine would fail one for being slow
settings.register_profile("trtspec", deadline=None)
settings.load_profile("trtspec")


class ServeRepository(Protocol):
    """Starts the real Triton on a repository folder for the length of a `with` block."""

    def __call__(self, repository: Path, *, ready_timeout: float = 120.0) -> AbstractContextManager[RunningServer]: ...


@contextlib.contextmanager
def _serve(repository: Path, log: Path, ready_timeout: float) -> Iterator[RunningServer]:
    plan = repository_plan(repository, free_ports(), log=log)
    try:
        server = start_server(plan, ready_timeout=ready_timeout)
    except ServerNotReady as error:
        tail = "\n".join(error.log_tail)
        pytest.fail(f"Triton did not start: {error}\ncause: {error.cause}\n{tail}")
    try:
        yield server
    finally:
        server.stop(now=True)


@pytest.fixture(scope="session")
def serve_repository(tmp_path_factory: pytest.TempPathFactory) -> ServeRepository:
    """A function that starts the real Triton on a repository folder, on free ports of 127.0.0.1.

    `with serve_repository(folder) as server:` gives a RunningServer (`.http_url`, `.grpc_url`, `.ports`, `.pid`,
    `.log`) whose models are all ready; it is stopped at the end of the block.
    """

    def serve(repository: Path, *, ready_timeout: float = 120.0) -> AbstractContextManager[RunningServer]:
        return _serve(repository, tmp_path_factory.mktemp("triton") / "server.log", ready_timeout)

    return serve


@pytest.fixture(scope="session")
def toy_deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToyDeployment]:
    """A tiny pair, built and with repositories generated; `.server(arm)` starts the real Triton on first use."""
    deployment = ToyDeployment(build_toy(tmp_path_factory.mktemp("toy")))
    try:
        yield deployment
    finally:
        deployment.close()


def triton_processes() -> list[psutil.Process]:
    """Servers and model processes that this test session started and that still live."""
    found = []
    for child in psutil.Process(os.getpid()).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if child.status() != psutil.STATUS_ZOMBIE and child.name().startswith(("tritonserver", "triton_python")):
                found.append(child)
    return found


@pytest.fixture(scope="session", autouse=True)
def _no_server_left() -> Iterator[None]:
    """The session fails when a server outlives the test that started it."""
    yield
    left = triton_processes()
    description = [f"{process.pid}: {' '.join(process.cmdline()[:3])}" for process in left]
    for process in left:
        process.kill()
    assert not description, f"servers left running: {description}"
