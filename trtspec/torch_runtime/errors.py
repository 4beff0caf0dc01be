"""What the torch engine can refuse."""

from __future__ import annotations

from trtspec.errors import BuildError, RequestFailed

__all__ = ["EngineUnsupported", "RequestRefused"]


class EngineUnsupported(BuildError):
    """A model that the torch runtime cannot run correctly."""


class RequestRefused(RequestFailed):
    """A request that this engine cannot serve; only that request fails."""

    def __init__(self, message: str, *, code: str = "invalid_request") -> None:
        super().__init__(message, code=code)
