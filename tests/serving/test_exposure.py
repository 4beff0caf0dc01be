"""The real server with restricted APIs and with TLS."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tritonclient.grpc import service_pb2

from tests.serving.certificates import self_signed
from tests.serving.models import model_repository
from trtspec.errors import RequestFailed, UsageError
from trtspec.serving import RunningServer, free_ports, repository_plan, start_server
from trtspec.serving.control import ControlFailed, ModelControl
from trtspec.serving.plan import Listening
from trtspec.serving.security import AdminKey, Tls, check_tls
from trtspec.wire import Connection
from trtspec.wire.connection import parse_address

pytestmark = pytest.mark.triton
KEY = AdminKey("a-secret")
RESTRICTED = ["/v2/models/echo/config", "/v2/models/stats", "/v2/trace/setting", "/v2/logging"]
RESTRICTED += ["/v2/systemsharedmemory/status"]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with TLS on every address of this machine."""
    folder = tmp_path_factory.mktemp("secured")
    listening = Listening("0.0.0.0", Tls(*self_signed(folder / "tls")))
    repository = model_repository(folder / "repo")
    plan = repository_plan(repository, free_ports(), log=folder / "log", listening=listening, admin=KEY)
    with start_server(plan, ready_timeout=60) as server:
        yield server
        server.stop(now=True)


def get(server: RunningServer, path: str, **headers: str) -> int:
    request = urllib.request.Request(f"http://{server.http_url}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize("path", RESTRICTED)
def test_what_is_for_administrators_asks_for_the_key(secured: RunningServer, path: str) -> None:
    assert get(secured, path) == 403
    assert get(secured, path, **{"trtspec-admin-key": "wrong"}) == 403
    assert get(secured, path, **{"trtspec-admin-key": KEY.value}) == 200


@pytest.mark.parametrize("path", ["/v2", "/v2/health/ready", "/v2/models/echo", "/v2/models/echo/ready"])
def test_health_and_metadata_are_open(secured: RunningServer, path: str) -> None:
    assert get(secured, path) == 200


def test_models_are_loaded_and_unloaded_with_the_key_alone(secured: RunningServer) -> None:
    stranger = ModelControl("127.0.0.1", secured.ports.http, None)
    with pytest.raises(ControlFailed, match="restricted"):
        stranger.unload("echo")
    assert secured.control.states() == {"echo": "READY"}


async def question(url: str, method: str, request: Any) -> Any:
    async with Connection(url) as connection:
        return await connection.unary(method, request, timeout=10)


def ready(url: str) -> bool:
    request = service_pb2.ModelReadyRequest(name="echo")
    return bool(asyncio.run(question(url, "ModelReady", request)).ready)


def test_our_client_connects_with_tls(secured: RunningServer) -> None:
    assert secured.grpc_url.startswith("grpcs://127.0.0.1:")
    assert ready(secured.grpc_url)


def test_a_certificate_for_another_name(secured: RunningServer) -> None:
    address, _, file = secured.grpc_url.partition("#")
    assert ready(f"{address}?name=gpu1.example#{file}")
    with pytest.raises(RequestFailed):
        ready(f"{address}?name=other.example#{file}")


def test_neither_without_tls_nor_without_the_authority(secured: RunningServer) -> None:
    address = secured.grpc_url.partition("#")[0]
    with pytest.raises(RequestFailed):
        ready(address)
    with pytest.raises(RequestFailed):
        ready(address.removeprefix("grpcs://"))


def test_the_key_goes_along_where_it_is_known(secured: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    request = service_pb2.ModelConfigRequest(name="echo")
    with pytest.raises(RequestFailed, match="restricted"):
        asyncio.run(question(secured.grpc_url, "ModelConfig", request))
    monkeypatch.setenv("TRTSPEC_ADMIN_KEY", KEY.value)
    assert asyncio.run(question(secured.grpc_url, "ModelConfig", request)).config.name == "echo"


@pytest.mark.parametrize("url", ["http://gpu1:8001", "grpc://gpu1:8001"])
def test_other_schemes_are_refused(url: str) -> None:
    with pytest.raises(UsageError, match="not an address for gRPC"):
        parse_address(url)


def test_a_certificate_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the certificate"):
        ready(f"grpcs://127.0.0.1:1#{tmp_path}/none.pem")


def test_a_certificate_that_does_not_belong_to_the_key_is_told_before_anything_is_loaded(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path / "one")
    other, _ = self_signed(tmp_path / "other")
    check_tls(Tls(certificate, key))
    for wrong, why in ((other, "mismatch"), (key, "no start line|pem lib"), (tmp_path / "none.pem", "no such file")):
        with pytest.raises(UsageError, match=f"(?i)TLS with .*: .*({why})") as caught:
            check_tls(Tls(wrong, key))
        assert caught.value.fix
    repository = model_repository(tmp_path / "repo")
    listening = Listening("127.0.0.1", Tls(other, key))
    plan = repository_plan(repository, free_ports(), log=tmp_path / "log", listening=listening)
    with pytest.raises(UsageError, match="TLS with"):
        start_server(plan, ready_timeout=60)
    assert not (tmp_path / "log").exists()
