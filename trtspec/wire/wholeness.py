"""What makes an answer whole. A stream under status 200 that stops short must never look like a fast success."""

from __future__ import annotations

from trtspec.errors import RequestFailed
from trtspec.wire.messages import Chunk

__all__ = ["Wholeness"]


class Wholeness:
    """Takes in the chunks of one stream; `check` says whether they are a whole answer."""

    def __init__(self, *, reason_needed: bool = False) -> None:
        self._reason_needed = reason_needed
        self._anything = self._reason = self._final = False

    def add(self, chunk: Chunk) -> None:
        """Note a chunk; RequestFailed "bad_response" where the running count of tokens falls, or counts nothing."""
        tokens = chunk.tokens
        if tokens is not None and (type(tokens) is not int or tokens < 0):
            raise RequestFailed(f"the server's count of tokens makes no sense: {tokens} more", code="bad_response")
        if chunk.text or tokens:
            self._anything = True
        if chunk.finish_reason:
            self._reason = True
        if chunk.final:
            self._final = True

    def check(self) -> None:
        """RequestFailed "ended_early" without the closing response, or "empty" when nothing was generated."""
        if not self._final:
            raise RequestFailed("stream ended early", code="ended_early")
        if self._reason_needed and not self._reason:
            raise RequestFailed("stream ended early: no finish_reason", code="ended_early")
        if not self._anything:
            raise RequestFailed("the answer is empty", code="empty")
