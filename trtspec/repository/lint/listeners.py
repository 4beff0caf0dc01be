"""Ports on which the server of a repository will listen: no config.pbtxt names one, its launch does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from trtspec.errors import UsageError

__all__ = ["Listener", "collisions", "launch_listeners", "read_launch"]

# of tritonserver (docs/user_guide/deploy.md: KServe HTTP, gRPC, Prometheus)
_DEFAULTS: Mapping[str, int] = {"http": 8000, "grpc": 8001, "metrics": 8002}
# --http-port=8000 of tritonserver, --http_port 8000 of launch_triton_server.py, and as items of a JSON or YAML list
_FLAG = re.compile(r"--(http|grpc|metrics)[-_]port[\s=\"',\[\]\\-]+(\d{1,5})(?!\d)")
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Listener:
    """A port of a server; `server` tells whose (an arm, or nothing where there is only one)."""

    server: str
    protocol: str
    port: int

    def __str__(self) -> str:
        return f"{self.protocol} of the {self.server} arm" if self.server else self.protocol


def collisions(listeners: Sequence[Listener]) -> Iterator[tuple[Listener, Listener]]:
    """Pairs that want the same port, the later one second."""
    yield from ((one, other) for one, other in combinations(listeners, 2) if one.port == other.port)


def launch_listeners(text: str) -> tuple[Listener, ...]:
    """The ports in a command line or what holds one (a script, compose.yaml, a manifest); the first of each counts."""
    given: dict[str, int] = {}
    for protocol, port in _FLAG.findall(text):
        given.setdefault(protocol, int(port))
    return tuple(Listener("", protocol, port) for protocol, port in {**_DEFAULTS, **given}.items())


def read_launch(path: Path) -> tuple[Listener, ...]:
    """`launch_listeners` of a file; UsageError when it cannot be read, or starts no Triton."""
    try:
        with path.open("rb") as stream:
            text = stream.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"--launch {path}: cannot be read: {error.strerror}") from None
    if "triton" not in text.lower() and not _FLAG.search(text):
        fix = "give the script, compose file or manifest with tritonserver's command line"
        raise UsageError(f"--launch {path}: nothing in it starts a Triton server", fix=fix)
    return launch_listeners(text)
