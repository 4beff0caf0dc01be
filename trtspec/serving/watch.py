"""Watching servers for as long as they are meant to run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from trtspec.errors import ServerError
from trtspec.serving.server import RunningServer

__all__ = ["Watched", "watch", "watch_all"]

Say = Callable[[str], None]


class Watched(Protocol):
    """What can be watched; see RunningServer."""

    def fatal(self) -> str | None:
        """Why it will never answer again; None when it may."""

    def revive(self, say: Say) -> bool:
        """After a fatal end: whether it could be started again."""

    def problem(self) -> str | None:
        """What is wrong with it now; None when all is well."""

    def failure(self, message: str) -> ServerError:
        """End it; the error that tells `message`."""


def watch(server: RunningServer, say: Say, *, interval: float = 1.0) -> None:
    """`watch_all` for one server."""
    watch_all([server], say, interval=interval)


def watch_all(
    servers: Sequence[Watched], say: Say, *, interval: float = 1.0, revived: Callable[[], None] = lambda: None
) -> None:
    """Block while the servers run; ServerNotReady when one has ended and cannot be revived, `revived` when it could.

    A server that is alive but does not answer for a while (a busy machine) is told through `say`, and not ended.
    """
    troubled: set[int] = set()
    while True:
        for index, server in enumerate(servers):
            if _look(server, say, troubled, index):
                revived()
        time.sleep(interval)


def _look(server: Watched, say: Say, troubled: set[int], index: int) -> bool:
    """Whether it had to be revived."""
    if fatal := server.fatal():
        if not server.revive(say):
            raise server.failure(server.fatal() or fatal)
        return True
    problem = server.problem()
    if problem and index not in troubled:
        say(f"[yellow]warning:[/] {problem}; still waiting")
        troubled.add(index)
    if not problem and index in troubled:
        say("the server answers again")
        troubled.discard(index)
    return False
