"""What `trtspec serve` leaves on disk while a server runs, so that other commands of this user find it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from trtspec.files import read_json
from trtspec.serving.certificates import tls_address
from trtspec.serving.ports import Ports, connect_host
from trtspec.serving.security import AdminKey
from trtspec.spec import ARMS, Arm, SpecFile

__all__ = ["Phase", "ServerState", "open_state", "running_states", "state_path"]

Phase = Literal["starting", "ready", "draining"]


@dataclass
class ServerState:
    """A server that was started by trtspec; `born` tells its process from a later one with the same number.

    openai: base URL of the endpoint before it, where there is one. restarts: what died and was
    started again (models, `server`, `openai`), and how often.
    """

    arm: Arm
    pid: int
    born: str
    way: str
    addresses: dict[str, str]
    ports: dict[str, int]
    models: list[str]
    started: float
    phase: Phase
    log: str
    launch_mode: str | None = None
    container: str | None = None
    tls: str | None = None
    openai: str | None = None
    restarts: dict[str, int] = field(default_factory=dict)
    admin: str | None = field(default=None, repr=False)

    @property
    def key(self) -> AdminKey | None:
        """The key of its restricted APIs."""
        return AdminKey(self.admin) if self.admin else None

    @property
    def port(self) -> Ports:
        """Its ports."""
        return Ports(**self.ports)

    @property
    def grpc_url(self) -> str:
        """Where clients on this machine connect, as `trtspec.wire.Connection` takes it."""
        host = connect_host(self.addresses["grpc"])
        plain = f"[{host}]:{self.ports['grpc']}" if ":" in host else f"{host}:{self.ports['grpc']}"
        return tls_address(plain, Path(self.tls)) if self.tls else plain


def state_path(spec_file: SpecFile, arm: Arm) -> Path:
    """The file beside the arm's repository."""
    repository = spec_file.repository(arm)
    return repository.with_name(f".{repository.name}.serve.json")


@contextmanager
def open_state(path: Path, state: ServerState) -> Iterator[ServerState]:
    """Write `state`, readable by this user alone (it holds the key), and remove it at the end; see `save`."""
    save(path, state)
    try:
        yield state
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def save(path: Path, state: ServerState) -> None:
    """Write `state` in one step; a folder that cannot be written only costs `trtspec status` its news."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump({"schema": 1, **asdict(state)}, stream)
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def running_states(spec_file: SpecFile) -> list[ServerState]:
    """The servers of this spec that were started by trtspec and still run."""
    found = (_read(state_path(spec_file, arm)) for arm in ARMS)
    return [state for state in found if state is not None and _lives(state)]


def _read(path: Path) -> ServerState | None:
    try:
        data: dict[str, Any] = read_json(path)
        data.pop("schema", None)
        return ServerState(**data)
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def process_birth(pid: int) -> str:
    """What tells a process from a later one with its number, whatever the clock is set to; empty when there is none."""
    import psutil

    try:
        process = psutil.Process(pid)
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists():  # its start since the boot, in ticks: the 20th field after the name
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
            return f"{boot} {stat.read_text(errors='replace').rpartition(')')[2].split()[19]}"
        return str(process.create_time())
    except (psutil.Error, OSError):
        return ""


def _lives(state: ServerState) -> bool:
    return bool(state.born) and process_birth(state.pid) == state.born
