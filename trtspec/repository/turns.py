"""Commands that change the same repository take turns: each sees what the one before it has left."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from trtspec.building.locks import locked
from trtspec.errors import ServerError

__all__ = ["in_turn"]

_LONGEST = 120.0


@contextmanager
def in_turn(repositories: Iterable[Path]) -> Iterator[None]:
    """Hold the locks of the repositories; ServerError when another command holds one for two minutes."""
    holders: list[str] = []
    deadline = time.monotonic() + _LONGEST

    def check() -> None:
        if time.monotonic() > deadline:
            raise ServerError(f"another command has been changing the repository for two minutes: {holders[-1]}")

    with ExitStack() as stack:
        for repository in sorted(set(repositories)):
            stack.enter_context(locked(repository, holders.append, check))
        yield
