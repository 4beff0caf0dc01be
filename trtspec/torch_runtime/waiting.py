"""Requests that wait for a place in the engine: first come, first served, within limits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from trtspec.torch_runtime.config import Admission
from trtspec.torch_runtime.errors import RequestRefused
from trtspec.torch_runtime.request import GenerationRequest, Listener

__all__ = ["BUSY", "Waiting", "WaitingLine", "has_gone"]

BUSY = "busy"
_ASKED = 16  # waiting requests that are asked between two passes whether their client has gone


@dataclass(frozen=True, eq=False)
class Waiting:
    """A request before it starts; one that `continues` an answer which was begun is let in past the limits."""

    request: GenerationRequest
    listener: Listener
    cancelled: Callable[[], bool]
    continues: bool = False

    @property
    def tokens(self) -> int:
        """The longest that its sequence can become."""
        request = self.request
        return len(request.prompt) + max(request.max_new_tokens, len(request.draft))


class WaitingLine:
    """The line itself; whoever uses it holds the engine's lock."""

    def __init__(self, limits: Admission) -> None:
        self._limits = limits
        self._line: deque[Waiting] = deque()
        self._tokens = 0
        self._next_asked = 0

    def __len__(self) -> int:
        return len(self._line)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._line)

    @property
    def tokens(self) -> int:
        """Of all that wait, prompts and answers."""
        return self._tokens

    def add(self, item: Waiting, places: int) -> None:
        """Queue `item`; RequestRefused with code "busy" beyond the limits; `places` of the line start now."""
        if not item.continues and (reason := self._full(item, places)):
            raise RequestRefused(f"{reason}; try again later", code=BUSY)
        self._line.append(item)
        self._tokens += item.tokens

    def take(self, fits: Callable[[Waiting], bool]) -> Waiting | None:
        """The first in line when it fits; nobody overtakes it."""
        if not self._line or not fits(self._line[0]):
            return None
        self._tokens -= self._line[0].tokens
        return self._line.popleft()

    def drop_gone(self) -> list[Waiting]:
        """Take out requests whose clients have gone; a few are asked each time, in turn, since asking may cost."""
        asked = [self._line[(self._next_asked + index) % len(self._line)] for index in range(min(_ASKED, len(self)))]
        self._next_asked = (self._next_asked + _ASKED) % max(1, len(self))
        gone = [item for item in asked if has_gone(item.cancelled)]
        for item in gone:
            self._line.remove(item)
            self._tokens -= item.tokens
        return gone

    def clear(self) -> list[Waiting]:
        """Take out everybody."""
        left = list(self._line)
        self._line.clear()
        self._tokens = 0
        return left

    def _full(self, item: Waiting, places: int) -> str | None:
        limits, waiting = self._limits, len(self._line) - places
        if waiting < 0:
            return None
        if waiting >= limits.max_waiting:
            return f"{len(self._line)} requests wait already (max_waiting {limits.max_waiting})"
        if limits.max_waiting_tokens is not None and self._tokens + item.tokens > limits.max_waiting_tokens:
            beside = f"{self._tokens} tokens wait already (max_waiting_tokens {limits.max_waiting_tokens})"
            return f"{item.tokens} more do not fit: {beside}"
        return None


def has_gone(ask: Callable[[], bool]) -> bool:
    """What `ask` says; a client that cannot be asked any more is gone."""
    try:
        return ask()
    except Exception:  # noqa: BLE001 - see above
        return True
