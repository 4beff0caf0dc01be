"""One connection to an HTTP server, whose bytes are stamped before anything is parsed.

aiohttp spends 80 µs of CPU on a request and gives no arrival times but those of the task that reads, which with many
streams at once wakes several milliseconds late; this is what a load generator needs of HTTP/1.1, and no more.
"""

from __future__ import annotations

import asyncio
import time
from typing import cast

from trtspec.errors import RequestFailed
from trtspec.wire.http_framing import BadAnswer, Body, Head, body_of, read_head

__all__ = ["HttpConnection", "Piece"]

# no answer is as long; one without end must not fill the memory
_LARGEST = 256 * 2**20
# (arrival in ns of time.perf_counter_ns, bytes of the body)
Piece = tuple[int, bytes]


class HttpConnection(asyncio.Protocol):
    """Sends one request at a time; `pieces` gives its answer as it arrives."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._error: RequestFailed | None = RequestFailed("no request was sent", code="unavailable")
        self._surplus = False
        self._begin()

    def _begin(self) -> None:
        self.head: Head | None = None
        self._body: Body | None = None
        self._kept = b""
        self._size = 0
        self._pieces: list[Piece] = []

    def send(self, request: bytes, timeout: float, left: float | None = None) -> None:
        """Send a whole request whose answer must be complete within `timeout` seconds, of which so many are `left`."""
        assert self._transport is not None
        self._begin()
        self._error = None
        self._deadline = self._loop.call_later(timeout if left is None else left, self._expire, timeout)
        self._transport.write(request)

    async def answer(self) -> Head:
        """The head of the answer; RequestFailed when none comes."""
        while self.head is None:
            await self._arrival()
        return self.head

    async def pieces(self) -> list[Piece]:
        """What has arrived of the body since the last time; empty when it is whole.

        RequestFailed when the connection breaks off, and when the time is over.
        """
        while not self._pieces:
            if self.done:
                return []
            await self._arrival()
        pieces, self._pieces = self._pieces, []
        return pieces

    @property
    def done(self) -> bool:
        """Whether the answer is whole."""
        return self._body is not None and self._body.done

    @property
    def reusable(self) -> bool:
        """Whether another request can be sent."""
        open_ = self._transport is not None and not self._transport.is_closing()
        return open_ and self.done and self.head is not None and self.head.keeps and not (self._error or self._surplus)

    def release(self) -> bool:
        """End the request: True when the connection can be used again; else it is closed."""
        if self._deadline is not None:
            self._deadline.cancel()
        if self.reusable:
            return True
        self.close()
        return False

    def close(self) -> None:
        """Close the connection at once, which tells a server to stop."""
        if self._transport is not None:
            self._transport.abort()

    async def _arrival(self) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        """Called by the loop when bytes have arrived."""
        now = time.perf_counter_ns()
        try:
            self._take(now, data)
        except BadAnswer as error:
            self._fail(RequestFailed(f"the answer is no HTTP: {error}", code="bad_response"))
        self._wake()

    def _take(self, now: int, data: bytes) -> None:
        if self.done:
            # nobody asked for it, and the next request must not take it for its answer
            self._surplus = True
            return
        if self._body is None:
            read = read_head(self._kept + data)
            if read is None:
                self._kept += data
                return
            self.head, data = read
            self._body = body_of(self.head)
        part = self._body.feed(data) if data else b""
        if part:
            self._size += len(part)
            if self._size > _LARGEST:
                raise BadAnswer(f"it has more than {_LARGEST >> 20} MiB")
            self._pieces.append((now, part))

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop when the connection has ended."""
        if self._body is not None and self._body.closes and exc is None:
            self._body.done = True
        if self.done or self._error is not None:
            pass
        elif self.head is None:
            self._error = RequestFailed(f"the server does not answer: {exc or 'it hung up'}", code="unavailable")
        else:
            self._error = RequestFailed("stream ended early: the connection broke off", code="ended_early")
        self._wake()

    def _expire(self, timeout: float) -> None:
        self._fail(RequestFailed(f"no complete answer within {timeout:g} s", code="timeout"))
        self._wake()

    def _fail(self, error: RequestFailed) -> None:
        self._error = self._error or error
        self.close()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
