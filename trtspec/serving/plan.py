"""What starting a server means, as data: command line, environment, ports, log."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trtspec.files import cache_dir
from trtspec.provenance import text_key
from trtspec.serving.command_line import ServerFlags, listen_flags, rank_commands
from trtspec.serving.installation import Installation, environment, find_installation
from trtspec.serving.launch import Start
from trtspec.serving.plain_paths import plain_name
from trtspec.serving.ports import Ports, listen_address
from trtspec.serving.security import AdminKey, Tls, is_loopback, restriction_flags
from trtspec.serving.ways import Way
from trtspec.spec import SpecFile

__all__ = ["EXIT_TIMEOUT", "LaunchPlan", "Listening", "drain_seconds", "repository_plan", "spec_ports"]

# Seconds that the server waits for requests in flight after SIGTERM. Its ports stay bound meanwhile.
EXIT_TIMEOUT = 3
_DRAIN, _LONGEST_DRAIN = 120, 3600


@dataclass(frozen=True)
class Listening:
    """Where a server listens: its host, and protocols that stay on loopback or have an address of their own.

    With TLS plain HTTP stays on loopback; metrics do unless `metrics_host` says otherwise.
    """

    host: str
    tls: Tls | None = None
    metrics_host: str | None = None

    def addresses(self) -> dict[str, str]:
        """IP address of each protocol; ServerError for a host that has none."""
        host = listen_address(self.host)
        loopback = host if is_loopback(host) else "::1" if ":" in host else "127.0.0.1"
        metrics = listen_address(self.metrics_host) if self.metrics_host else loopback
        return {"http": loopback if self.tls else host, "grpc": host, "metrics": metrics}

    @property
    def exposed(self) -> bool:
        """Whether other machines can reach it."""
        return not is_loopback(self.host)


@dataclass(frozen=True)
class LaunchPlan:
    """One start of a server on one model repository; nothing has been done yet.

    addresses: protocol → IP address. installation: the embedded server's. start: how TensorRT-LLM's processes are
    started. admin: the key of the restricted APIs. load_order: models that we load, one after the other, once it runs.
    after: a command that removes what an ended server may leave (a container). bytes: of the weights it reads. link:
    the path by which the server knows the repository, where its own is not plain (see plain_paths.py).
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    ports: Ports
    log: Path
    host: str
    repository: Path
    installation: Installation | None
    shm_prefix: str
    way: Way = "embedded"
    addresses: Mapping[str, str] = field(default_factory=dict)
    start: Start | None = None
    exit_timeout: int = EXIT_TIMEOUT
    admin: AdminKey | None = None
    tls: Tls | None = None
    load_order: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    container: str | None = None
    bytes: int = 0
    notes: tuple[str, ...] = ()
    link: Path | None = None

    def address(self, protocol: str) -> str:
        """The IP address of a protocol."""
        return self.addresses.get(protocol, self.host)

    @property
    def cwd(self) -> Path:
        """The folder to start in: a model's sys.path begins with it, so nothing to import may lie there."""
        return self.installation.backends if self.installation else cache_dir() / "serve"


def spec_ports(spec_file: SpecFile) -> Ports:
    """The ports that the spec gives."""
    serving = spec_file.spec.serving
    return Ports(serving.http_port, serving.grpc_port, serving.metrics_port)


def drain_seconds(spec_file: SpecFile) -> int:
    """Seconds that running requests get to end: the longest that one may take, at most an hour; else two minutes."""
    limit = spec_file.spec.serving.request_timeout
    return _DRAIN if limit is None else max(1, min(_LONGEST_DRAIN, round(limit) + 1))


def repository_plan(  # noqa: PLR0913  # all that a start of the embedded server depends on, by name
    repository: Path,
    ports: Ports,
    *,
    log: Path,
    host: str = "127.0.0.1",
    listening: Listening | None = None,
    admin: AdminKey | None = None,
    exit_timeout: int = EXIT_TIMEOUT,
) -> LaunchPlan:
    """The start of the embedded server on any model repository; EnvironmentMissing when there is no server to start.

    `admin`: models can be unloaded with this key (see `RunningServer.drain`); without one nobody can.
    """
    installation = find_installation()
    listening = listening or Listening(host, metrics_host=host)
    repository, addresses = repository.absolute(), listening.addresses()
    prefix, served_as = shm_prefix(repository, listening.host, ports), plain_name(repository)
    flags = ServerFlags(
        str(installation.binary),
        str(served_as),
        listen_flags(addresses, ports),
        prefix,
        exit_timeout,
        str(installation.backends),
        security_flags(listening, admin),
        managed=admin is not None,
    )
    return LaunchPlan(
        argv=rank_commands(flags, None),
        env=environment(installation, os.environ),
        ports=ports,
        log=log,
        host=listen_address(listening.host),
        repository=repository,
        installation=installation,
        shm_prefix=prefix,
        addresses=addresses,
        exit_timeout=exit_timeout,
        admin=admin,
        tls=listening.tls,
        link=None if served_as == repository else served_as,
    )


def shm_prefix(repository: Path, host: str, ports: Ports) -> str:
    """Begin of the names of a server's shared memory: unique among living servers, because they cannot share ports."""
    parts = [str(repository), listen_address(host), *(str(port) for _, port in ports.items())]
    return f"trtspec-{text_key(parts, 12)}-"


def security_flags(listening: Listening, admin: AdminKey | None) -> tuple[str, ...]:
    """Restrictions and TLS."""
    restricted = restriction_flags(admin, exposed=listening.exposed) if admin else ()
    return (*restricted, *(listening.tls.flags() if listening.tls else ()))
