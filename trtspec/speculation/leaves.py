"""The two models behind the loop, as small protocols; what they return may or may not carry the prompt."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

__all__ = ["Cancelled", "DraftLeaf", "Expired", "LeafError", "TargetLeaf"]


class LeafError(Exception):
    """A leaf model answered with an error; the message is one line, `reason` one word for a counter."""

    def __init__(self, message: str, reason: str = "failed") -> None:
        super().__init__(message)
        self.reason = reason


class Cancelled(Exception):
    """The client has gone or has cancelled the request; nothing goes on."""


class Expired(Cancelled):
    """The request has run for longer than it may."""


class DraftLeaf(Protocol):
    """The small model."""

    async def propose(self, ids: Sequence[int], count: int) -> Sequence[int]:
        """At most `count` tokens that may follow `ids`; any exception but Cancelled means: go on without."""
        ...


class TargetLeaf(Protocol):
    """The model whose output counts."""

    async def verify(self, ids: Sequence[int], draft: Sequence[int]) -> Sequence[int]:
        """The part of `draft` that the target would have chosen after `ids`, and one token more."""
        ...

    def stream(self, ids: Sequence[int], limit: int) -> AsyncGenerator[Sequence[int], None]:
        """Up to `limit` tokens after `ids`, piece by piece, from one inner request; closing it ends that request."""
        ...
