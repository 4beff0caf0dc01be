from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from trtspec.errors import PortInUse, ServerError
from trtspec.serving import Ports, connect_host, free_ports
from trtspec.serving.ports import check_free, is_free


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_free_ports_are_three_and_free() -> None:
    ports = free_ports()
    numbers = [port for _, port in ports.items()]
    assert len(set(numbers)) == 3
    assert all(is_free("127.0.0.1", port) for port in numbers)


def test_checking_leaves_nothing_bound() -> None:
    ports = free_ports()
    check_free(lambda _: "127.0.0.1", ports)
    check_free(lambda _: "127.0.0.1", ports)


def test_a_taken_port_is_named_with_its_holder(taken: int) -> None:
    free = free_ports()
    with pytest.raises(PortInUse) as caught:
        check_free(lambda _: "127.0.0.1", Ports(free.http, taken, free.metrics))
    assert caught.value.port == taken
    assert f"(pid {os.getpid()})" in str(caught.value)
    assert caught.value.fix is not None
    assert "--grpc-port" in caught.value.fix
    assert "serving.grpc_port" in caught.value.fix


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1", "localhost"])
def test_a_listener_on_loopback_counts_for_every_address(taken: int, host: str) -> None:
    assert not is_free(host, taken)


def test_a_host_that_is_not_ours() -> None:
    with pytest.raises(ServerError, match=r"192\.0\.2\.1"):
        is_free("192.0.2.1", 20000)


def test_a_host_that_does_not_exist() -> None:
    with pytest.raises(ServerError, match="no-such-host"):
        is_free("no-such-host.invalid", 20000)


@pytest.mark.parametrize(("host", "client"), [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("10.0.0.7", "10.0.0.7")])
def test_clients_use_an_address_that_exists(host: str, client: str) -> None:
    assert connect_host(host) == client
