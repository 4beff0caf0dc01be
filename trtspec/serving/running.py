"""Servers while they serve: their state on disk, and their common end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trtspec.serving.server import RunningServer
from trtspec.serving.state import ServerState, open_state, process_birth, save, state_path
from trtspec.spec import Arm, SpecFile

__all__ = ["Stated", "drain_all", "stated"]


@dataclass
class Stated:
    """A running server's state, and the file that tells it to other commands."""

    path: Path
    state: ServerState

    def change(self, **values: Any) -> None:
        """Write the state down with some of its fields changed."""
        self.state = replace(self.state, **values)
        save(self.path, self.state)

    def follow(self, server: RunningServer, restarts: Mapping[str, int]) -> None:
        """Write down what was started again, and the process that the server is now."""
        values: dict[str, Any] = {"restarts": dict(restarts)}
        if server.pid != self.state.pid:
            values |= {"pid": server.pid, "born": process_birth(server.pid), "started": time.time()}
        self.change(**values)


def server_state(arm: Arm, server: RunningServer) -> ServerState:
    """What is written down about a ready server."""
    plan = server.plan
    return ServerState(
        arm=arm,
        pid=server.pid,
        born=process_birth(server.pid),
        way=plan.way,
        addresses={protocol: plan.address(protocol) for protocol, _ in plan.ports.items()},
        ports=dict(plan.ports.items()),
        models=list(server.models),
        started=time.time(),
        phase="ready",
        log=str(plan.log),
        launch_mode=plan.start.mode if plan.start else None,
        container=plan.container,
        tls=str(plan.tls.certificate) if plan.tls else None,
        admin=plan.admin.value if plan.admin else None,
    )


@contextmanager
def stated(spec_file: SpecFile, arm: Arm, server: RunningServer) -> Iterator[Stated]:
    """The server's state on disk for the length of the block."""
    path = state_path(spec_file, arm)
    with open_state(path, server_state(arm, server)) as state:
        yield Stated(path, state)


def drain_all(
    servers: Mapping[Arm, RunningServer], states: Mapping[Arm, Stated], limit: float, tell: Callable[[str], None]
) -> bool:
    """Drain all at once (see `RunningServer.drain`) and say so in their states; True when every request has ended."""
    for state in states.values():
        state.change(phase="draining")
    pool = ThreadPoolExecutor(max(1, len(servers)))
    try:
        jobs = [pool.submit(server.drain, limit, tell) for server in servers.values()]
        finished = [job.result() for job in jobs]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return all(finished)
