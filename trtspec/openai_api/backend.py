"""The server behind the endpoint: one gRPC channel, how many requests run on it, and what it says of itself."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager

from trtspec.errors import RequestFailed
from trtspec.openai_api.failures import ApiError, api_error
from trtspec.openai_api.settings import Settings
from trtspec.wire import Chunk, Connection, FrontendRequest, model_ready

__all__ = ["Backend"]

_METRICS_TIMEOUT = 5.0


class Backend:
    """The frontend model, through a connection that somebody else opens and closes."""

    def __init__(self, settings: Settings, connection: Connection) -> None:
        self._settings = settings
        self._connection = connection
        self._running = 0

    async def stream(self, request: FrontendRequest) -> AsyncGenerator[Chunk, None]:
        """The chunks of an answer; ApiError when there is none. Closing it cancels the request on the server."""
        with self._place():
            try:
                async with aclosing(self._connection.stream(request, timeout=self._settings.request_timeout)) as chunks:
                    async for chunk in chunks:
                        yield chunk
            except RequestFailed as error:
                raise api_error(error) from None

    async def ready(self) -> bool:
        """Whether the frontend takes requests."""
        return await model_ready(self._connection)

    async def metrics(self) -> bytes:
        """Triton's metrics, the frontend's own among them; ApiError when they cannot be read."""
        try:
            return await asyncio.to_thread(_fetch, self._settings.metrics_url)
        except (OSError, http.client.HTTPException) as error:
            raise ApiError(503, f"the server's metrics cannot be read: {error}", code="unavailable") from None

    @contextmanager
    def _place(self) -> Iterator[None]:
        if self._running >= self._settings.max_running:
            raise ApiError(429, f"{self._running} requests are running; try again later", code="busy")
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1


def _fetch(url: str) -> bytes:
    connection = http.client.HTTPConnection(url, timeout=_METRICS_TIMEOUT)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read()
    finally:
        connection.close()
