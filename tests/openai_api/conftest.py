"""The endpoint as a process of its own, before the real Triton."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import openai
import pytest

from tests.serving.toy import ToyDeployment
from trtspec.openai_api import API_KEY, OpenaiServer, Settings, openai_server
from trtspec.serving import RunningServer, free_ports

KEY = "a-key"
MODELS = ("toy", "tensorrt_llm_bls")


@contextmanager
def started(settings: Settings, log: Path, key: str = "") -> Iterator[OpenaiServer]:
    """The endpoint; the environment has the key only while it starts."""
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(API_KEY, key)
            server = stack.enter_context(openai_server(settings, log=log))
        yield server


@pytest.fixture(scope="session")
def triton(toy_deployment: ToyDeployment) -> RunningServer:
    return toy_deployment.server("speculative")


@pytest.fixture(scope="session")
def front(triton: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenaiServer]:
    """The endpoint with its default limits and no key."""
    settings = Settings(free_ports().http, triton.grpc_url, triton.metrics_url, models=MODELS)
    with started(settings, _log(tmp_path_factory)) as server:
        yield server


@pytest.fixture(scope="session")
def tight_front(triton: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenaiServer]:
    """Half a second for a request, small bodies, and a key."""
    settings = Settings(
        free_ports().http,
        triton.grpc_url,
        triton.metrics_url,
        models=MODELS,
        request_timeout=0.5,
        max_body_bytes=2000,
    )
    with started(settings, _log(tmp_path_factory), key=KEY) as server:
        yield server


@pytest.fixture
def narrow_front(triton: RunningServer, tmp_path: Path) -> Iterator[OpenaiServer]:
    """One request at a time."""
    settings = Settings(free_ports().http, triton.grpc_url, triton.metrics_url, models=MODELS, max_running=1)
    with started(settings, tmp_path / "openai.log") as server:
        yield server


@pytest.fixture(scope="session")
def lonely_front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenaiServer]:
    """No server behind it."""
    ports = free_ports()
    settings = Settings(ports.http, f"127.0.0.1:{ports.grpc}", f"127.0.0.1:{ports.metrics}")
    with started(settings, _log(tmp_path_factory)) as server:
        yield server


@pytest.fixture
def client(front: OpenaiServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=front.url, api_key="unused", max_retries=0) as connected:
        yield connected


def _log(factory: pytest.TempPathFactory) -> Path:
    return factory.mktemp("openai") / "openai.log"
