"""Watching a server for as long as it is meant to run."""

from __future__ import annotations

import time
from collections.abc import Callable

from trtspec.serving.server import RunningServer

__all__ = ["watch"]


def watch(server: RunningServer, say: Callable[[str], None], *, interval: float = 1.0) -> None:
    """Block while the server runs; ServerNotReady when it ends or one of its models' processes dies.

    A server that is alive but does not answer for a while (a busy machine) is told through `say`, and not ended.
    """
    troubled = False
    while True:
        if fatal := server.fatal():
            raise server.failure(fatal)
        problem = server.problem()
        if problem and not troubled:
            say(f"[yellow]warning:[/] {problem}; still waiting")
        if troubled and not problem:
            say("the server answers again")
        troubled = problem is not None
        time.sleep(interval)
