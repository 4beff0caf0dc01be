"""What runs: servers of a spec that trtspec started, what listens on the spec's ports, or a server at an address."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlsplit

from trtspec.serving.health import answers
from trtspec.serving.metrics import metrics_summary, read_metrics
from trtspec.serving.plan import spec_ports
from trtspec.serving.ports import Ports, connect_host
from trtspec.serving.state import ServerState, running_states
from trtspec.spec import SpecFile
from trtspec.spec.names import DRAFT_MODEL, FRONTEND_MODEL, TARGET_MODEL

__all__ = ["EndpointStatus", "ModelStatus", "ServerStatus", "server_status", "spec_status"]

_USUAL = (FRONTEND_MODEL, TARGET_MODEL, DRAFT_MODEL)
_TIMEOUT = 3.0


@dataclass(frozen=True)
class ModelStatus:
    """One model of a server; `versions` are those that it serves, empty when it does not tell."""

    name: str
    ready: bool
    versions: tuple[str, ...] = ()


@dataclass(frozen=True)
class EndpointStatus:
    """The OpenAI-compatible endpoint before a server: base URL, whether it answers, whether it takes requests."""

    url: str
    live: bool
    ready: bool


@dataclass(frozen=True)
class ServerStatus:
    """One server. `source`: state (started by trtspec), port (found on the spec's ports) or url (asked for).

    phase, uptime and openai are known only of servers that trtspec started; metrics is None when nothing answers
    there.
    """

    source: str
    url: str
    metrics_url: str
    live: bool
    ready: bool
    models: tuple[ModelStatus, ...]
    server: str | None = None
    version: str | None = None
    arm: str | None = None
    pid: int | None = None
    way: str | None = None
    launch_mode: str | None = None
    container: str | None = None
    phase: str | None = None
    uptime_seconds: float | None = None
    log: str | None = None
    metrics: dict[str, Any] | None = None
    openai: EndpointStatus | None = None
    restarts: dict[str, int] | None = None

    @property
    def well(self) -> bool:
        """Whether the server, and the endpoint before it, take requests."""
        return self.ready and (self.openai is None or self.openai.ready)

    def to_json(self) -> dict[str, Any]:
        """The server as `trtspec status --output json` prints it."""
        return asdict(self)


def spec_status(spec_file: SpecFile) -> list[ServerStatus]:
    """The servers of a spec: those that trtspec started, and what else answers on the spec's own ports."""
    states = running_states(spec_file)
    found = [_of_state(state) for state in states]
    ports = spec_ports(spec_file)
    if all(state.ports["http"] != ports.http for state in states):
        host = connect_host(spec_file.spec.serving.host)
        other = server_status(host, ports, source="port")
        found += [other] if other.live else []
    return found


def server_status(host: str, ports: Ports, *, source: str = "url", models: Sequence[str] | None = None) -> ServerStatus:
    """The server at `host`; its models are the usual three where it has them, unless `models` says others."""
    metadata = _get(host, ports.http, "/v2") or {}
    live = answers(host, ports.http, "/v2/health/live", timeout=_TIMEOUT)
    samples = read_metrics(host, ports.metrics, timeout=_TIMEOUT) if live else None
    return ServerStatus(
        source=source,
        url=_join(host, ports.http),
        metrics_url=_join(host, ports.metrics),
        live=live,
        ready=live and answers(host, ports.http, "/v2/health/ready", timeout=_TIMEOUT),
        models=tuple(_models(host, ports.http, models)) if live else (),
        server=metadata.get("name"),
        version=metadata.get("version"),
        metrics=metrics_summary(samples) if samples is not None else None,
    )


def _of_state(state: ServerState) -> ServerStatus:
    host = connect_host(state.addresses["http"])
    seen = server_status(host, state.port, source="state", models=state.models)
    return ServerStatus(
        **{
            **{name: getattr(seen, name) for name in seen.__dataclass_fields__},
            "arm": state.arm,
            "pid": state.pid,
            "way": state.way,
            "launch_mode": state.launch_mode,
            "container": state.container,
            "phase": state.phase,
            "restarts": state.restarts,
            "uptime_seconds": max(0.0, time.time() - state.started),
            "log": state.log,
            "openai": None if state.openai is None else _endpoint(state.openai),
        }
    )


def _endpoint(url: str) -> EndpointStatus:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 0
    live = answers(host, port, "/health/live", timeout=_TIMEOUT)
    return EndpointStatus(url, live, live and answers(host, port, "/health/ready", timeout=_TIMEOUT))


def _models(host: str, port: int, names: Sequence[str] | None) -> Iterable[ModelStatus]:
    for name in names or _USUAL:
        data = _get(host, port, f"/v2/models/{name}")
        if data is None and names is None:
            continue  # it has no such model
        ready = answers(host, port, f"/v2/models/{name}/ready", timeout=_TIMEOUT)
        yield ModelStatus(name, ready, tuple(str(version) for version in (data or {}).get("versions", ())))


def _get(host: str, port: int, path: str) -> dict[str, Any] | None:
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        data = json.loads(answer.read())
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return data if answer.status == http.client.OK and isinstance(data, dict) else None


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
