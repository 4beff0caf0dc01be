"""The three ports of a server: choosing free ones, and saying who holds one that is not."""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass

from trtspec.errors import PortInUse, ServerError

__all__ = ["Ports", "check_free", "connect_host", "free_ports", "is_free", "listen_address", "port_holder"]

# Below the range from which Linux takes ports for outgoing connections (32768 up), so that none takes ours.
_CANDIDATES = range(15000, 32000)
_ANY = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104  # compared, never bound


@dataclass(frozen=True)
class Ports:
    """Where a server listens: HTTP, gRPC and Prometheus metrics."""

    http: int
    grpc: int
    metrics: int

    def items(self) -> list[tuple[str, int]]:
        """(protocol, port) of all three."""
        return list(asdict(self).items())


def connect_host(host: str) -> str:
    """The address a client on this machine uses for a server that listens on `host`."""
    return _ANY.get(host, host)


def free_ports(host: str = "127.0.0.1") -> Ports:
    """Three different ports of `host` that nobody listens on now."""
    chosen: list[int] = []
    for port in random.SystemRandom().sample(_CANDIDATES, k=2000):
        if is_free(host, port):
            chosen.append(port)
        if len(chosen) == 3:
            return Ports(*chosen)
    raise ServerError(f"no free port found on {host}")


def listen_address(host: str) -> str:
    """The IP address of `host`, IPv4 where it has one: Triton takes no names. ServerError when it has none."""
    try:
        found = socket.getaddrinfo(host or "0.0.0.0", None, type=socket.SOCK_STREAM)  # noqa: S104
    except OSError as error:
        raise ServerError(f"cannot listen on host {host!r}: {error}", fix="set serving.host in the spec") from None
    return str(min(found, key=lambda entry: entry[0] != socket.AF_INET)[4][0])


def is_free(host: str, port: int) -> bool:
    """True when a server could listen on `port` of `host` now; ServerError when `host` is no address of ours."""
    address = listen_address(host)
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            probe.listen(1)
        except PermissionError:
            fix = "use ports of 1024 and above (serving.*_port in the spec)"
            raise ServerError(f"not allowed to listen on port {port}", fix=fix) from None
        except OSError as error:
            if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                message = f"cannot listen on host {host!r}: no address of this machine"
                raise ServerError(message, fix="set serving.host in the spec (127.0.0.1)") from None
            return False
    return True


def check_free(address: Callable[[str], str], ports: Ports) -> None:
    """Return when all ports are free; PortInUse names the first that is not, who holds it and what to change.

    `address`: the IP address of a protocol.
    """
    for protocol, port in ports.items():
        if not is_free(address(protocol), port):
            fix = f"stop it, or choose another port: --{protocol}-port {port + 100}, or serving.{protocol}_port"
            raise PortInUse(port, holder=port_holder(port), fix=fix)


def port_holder(port: int) -> str | None:
    """`name (pid N)` of the process that listens on `port`; None where the system does not tell."""
    import psutil

    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port:
                return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})" if connection.pid else None
    except (psutil.Error, OSError):
        return None
    return None
