"""Servers while they serve: their state on disk, and their common end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from trtspec.serving.server import RunningServer
from trtspec.serving.state import ServerState, open_state, process_birth, save, state_path
from trtspec.spec import Arm, SpecFile

__all__ = ["drain_all", "stated"]


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
def stated(spec_file: SpecFile, arm: Arm, server: RunningServer) -> Iterator[ServerState]:
    """The server's state on disk for the length of the block."""
    with open_state(state_path(spec_file, arm), server_state(arm, server)) as state:
        yield state


def drain_all(
    spec_file: SpecFile, servers: Mapping[Arm, RunningServer], limit: float, tell: Callable[[str], None]
) -> bool:
    """Drain all at once (see `RunningServer.drain`); True when every request has ended."""
    for arm, server in servers.items():
        state = server_state(arm, server)
        save(state_path(spec_file, arm), replace(state, phase="draining"))
    pool = ThreadPoolExecutor(max(1, len(servers)))
    try:
        jobs = [pool.submit(server.drain, limit, tell) for server in servers.values()]
        finished = [job.result() for job in jobs]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return all(finished)
