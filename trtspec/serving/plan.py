"""What starting a server means, as data: command line, environment, ports, log."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trtspec.provenance import text_key
from trtspec.serving.installation import Installation, environment, find_installation
from trtspec.serving.ports import Ports, listen_address
from trtspec.spec import Arm, SpecFile

__all__ = ["EXIT_TIMEOUT", "LaunchPlan", "launch_plan", "repository_plan", "spec_ports"]

# Seconds that the server waits for requests in flight after SIGTERM. Its ports stay bound meanwhile.
EXIT_TIMEOUT = 3
# Seconds until a model process must have started (interpreter and the model's imports; torch is slow on a busy disk).
_STUB_TIMEOUT = 120


@dataclass(frozen=True)
class LaunchPlan:
    """One start of the server on one model repository; nothing has been done yet."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    ports: Ports
    log: Path
    host: str
    repository: Path
    installation: Installation
    shm_prefix: str


def spec_ports(spec_file: SpecFile) -> Ports:
    """The ports that the spec gives."""
    serving = spec_file.spec.serving
    return Ports(serving.http_port, serving.grpc_port, serving.metrics_port)


def launch_plan(spec_file: SpecFile, arm: Arm, ports: Ports, *, log: Path) -> LaunchPlan:
    """The start of the server on an arm's generated repository."""
    return repository_plan(spec_file.repository(arm), ports, log=log, host=spec_file.spec.serving.host)


def repository_plan(repository: Path, ports: Ports, *, log: Path, host: str = "127.0.0.1") -> LaunchPlan:
    """The start of the server on any model repository; EnvironmentMissing when there is no server to start."""
    installation = find_installation()
    repository, host = repository.absolute(), listen_address(host)
    # Unique among the servers alive on this machine, because they cannot share ports.
    prefix = f"trtspec-{text_key([str(repository), host, *(str(port) for _, port in ports.items())], 12)}-"
    return LaunchPlan(
        argv=_argv(installation, repository, _listen(host, ports), prefix),
        env=environment(installation, os.environ),
        ports=ports,
        log=log,
        host=host,
        repository=repository,
        installation=installation,
        shm_prefix=prefix,
    )


def _listen(host: str, ports: Ports) -> tuple[str, ...]:
    # the ways in which Triton's two web servers want an IPv6 address
    grpc_host, http_host = (f"[{host}]", f"ipv6:{host}") if ":" in host else (host, host)
    addresses = {"http": http_host, "grpc": grpc_host, "metrics": http_host}
    return tuple(
        flag
        for protocol, port in ports.items()
        for flag in (f"--{protocol}-address={addresses[protocol]}", f"--{protocol}-port={port}")
    )


def _argv(installation: Installation, repository: Path, listen: tuple[str, ...], prefix: str) -> tuple[str, ...]:
    return (
        str(installation.binary),
        f"--model-repository={repository}",
        f"--backend-directory={installation.backends}",
        f"--backend-config=python,shm-region-prefix-name={prefix}",
        f"--backend-config=python,stub-timeout-seconds={_STUB_TIMEOUT}",
        # the generated configurations are complete; completing them would load every model twice
        "--disable-auto-complete-config",
        *listen,
        f"--exit-timeout-secs={EXIT_TIMEOUT}",
    )
