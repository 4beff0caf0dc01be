"""An HTTP server that is asked over a pool of connections: streams of server-sent events, and plain JSON documents."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import ssl
import time
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from trtspec.errors import RequestFailed, UsageError
from trtspec.wire.http_connection import HttpConnection
from trtspec.wire.refusals import refusal
from trtspec.wire.sse import EventSplitter

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Events", "HttpSession", "Reply", "parse_json"]

# seconds; less than uvicorn's 5: a server must not close a connection in the moment in which it is used again
_KEEP_ALIVE = 4.0
_KEY_VARIABLE = "TRTSPEC_API_KEY"
_PORTS = {"http": 80, "https": 443}
_OK = 200
# the client is at its end, not the server
_OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.EADDRNOTAVAIL})

# (arrival in ns of time.perf_counter_ns, data)
Events = list[tuple[int, bytes]]


def parse_json(data: bytes) -> Any:
    """The JSON in `data`; what is no UTF-8 in it becomes U+FFFD. ValueError when it is no JSON."""
    try:
        return _loads()(data)
    except ValueError:
        # orjson refuses bad UTF-8 and lone surrogates, which servers do send in the middle of a character
        text = data.decode("utf-8", errors="replace")
        try:
            return _clean(json.loads(text))
        except RecursionError:
            raise ValueError("nested too deep") from None


@lru_cache(maxsize=1)
def _loads() -> Callable[[bytes], Any]:
    import orjson

    return orjson.loads


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return {key: _clean(item) for key, item in value.items()} if isinstance(value, dict) else value


class HttpSession:
    """Connections to `url` (scheme, host and port, and a path in front of all others), closed on leaving.

    `https://HOST:PORT#CA.pem` believes who CA.pem vouches for (without it: whom the system believes). The environment
    variable TRTSPEC_API_KEY, where it is set, is sent as the bearer's key.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._tls = parts.hostname or "", parts.scheme == "https"
        try:
            self._port = parts.port or _PORTS[parts.scheme]
        except (KeyError, ValueError):
            raise UsageError(f"{url}: not an address of a server", fix="http://HOST:PORT") from None
        self._path = parts.path.rstrip("/")
        self._authorities = unquote(parts.fragment) or None
        self._lines = f"Host: {parts.netloc.rpartition('@')[2]}\r\nAccept: */*\r\n"
        self._context: ssl.SSLContext | None = None
        self._idle: deque[tuple[float, HttpConnection]] = deque()
        self._addresses: list[str] = []

    async def __aenter__(self) -> Self:
        key = os.environ.get(_KEY_VARIABLE)
        if key:
            self._lines += f"Authorization: Bearer {key}\r\n"
        try:
            self._context = ssl.create_default_context(cafile=self._authorities) if self._tls else None
        except OSError as error:
            raise UsageError(f"cannot read the certificate: {error}", fix="https://HOST:PORT#CA.pem") from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _, connection in self._idle:
            connection.close()
        self._idle.clear()
        # closed connections leave the loop one turn later
        await asyncio.sleep(0)

    async def post(self, path: str, body: bytes, *, timeout: float) -> Reply:
        """The answer to `body`, once its head has come; to be closed.

        RequestFailed for another status than 200, and when there is none within `timeout` seconds.
        """
        reply = await self._send("POST", path, body, timeout)
        if reply.status != _OK:
            try:
                raise await _refused(reply)
            finally:
                reply.close()
        return reply

    async def document(self, path: str, *, timeout: float = 10, post: bool = False) -> Any:
        """The JSON of a GET (or an empty POST), None for an empty body; RequestFailed as `post` raises it."""
        reply = await self._send("POST" if post else "GET", path, b"", timeout)
        try:
            if reply.status != _OK:
                raise await _refused(reply)
            return parse_json(await reply.read() or b"null")
        except ValueError:
            raise RequestFailed(f"{path} is no JSON", code="bad_response") from None
        finally:
            reply.close()

    async def _send(self, method: str, path: str, body: bytes, timeout: float) -> Reply:
        begin = time.monotonic()
        connection = self._reused() or await self._connected(timeout)
        head = f"{method} {self._path}{path} HTTP/1.1\r\n{self._lines}"
        if body or method == "POST":
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        connection.send(f"{head}\r\n".encode() + body, timeout, timeout - (time.monotonic() - begin))
        reply = Reply(connection, self._idle)
        try:
            await reply.begin()
        except BaseException:
            reply.close()
            raise
        return reply

    def _reused(self) -> HttpConnection | None:
        oldest = time.monotonic() - _KEEP_ALIVE
        while self._idle:
            since, connection = self._idle.pop()
            if since > oldest and connection.reusable:
                return connection
            connection.close()
        return None

    async def _connected(self, timeout: float) -> HttpConnection:
        try:
            return await asyncio.wait_for(self._connect(), timeout)
        except asyncio.TimeoutError:  # not TimeoutError before Python 3.11
            raise RequestFailed(f"no connection within {timeout:g} s", code="timeout") from None
        except (OSError, UnicodeError) as error:
            if isinstance(error, OSError) and error.errno in _OUT_OF_FILES:
                message = f"this machine opens no more connections: {error.strerror}"
                raise RequestFailed(message, code="client_limit") from None
            raise RequestFailed(f"the server does not answer: {error}", code="unavailable") from None

    async def _connect(self) -> HttpConnection:
        loop = asyncio.get_running_loop()
        if not self._addresses:
            found = await loop.getaddrinfo(self._host, self._port, type=1)
            self._addresses = [info[4][0] for info in found if isinstance(info[4][0], str)]
        *others, last = self._addresses
        for address in others:
            with contextlib.suppress(OSError):
                return await self._connect_to(address)
        return await self._connect_to(last)

    async def _connect_to(self, address: str) -> HttpConnection:
        loop, name = asyncio.get_running_loop(), None if self._context is None else self._host
        _, connection = await loop.create_connection(
            HttpConnection, address, self._port, ssl=self._context, server_hostname=name
        )
        return connection


class Reply:
    """An answer that is being received."""

    def __init__(self, connection: HttpConnection, idle: deque[tuple[float, HttpConnection]]) -> None:
        self._connection, self._idle = connection, idle
        self._splitter: EventSplitter | None = None
        self._over = False
        self.status = 0

    async def begin(self) -> None:
        """Wait for the head."""
        head = await self._connection.answer()
        self.status = head.status
        if head.headers.get("content-type", "").startswith("text/event-stream"):
            self._splitter = EventSplitter()

    async def events(self) -> Events:
        """What has arrived together: (arrival in ns, data) of each server-sent event; empty when all have come.

        A body that is no event stream is one event. RequestFailed when the connection breaks off, and when the answer
        is not complete within the timeout of the request.
        """
        if self._splitter is None:
            return await self._one()
        while not self._over:
            pieces = await self._connection.pieces()
            events = [(at, event) for at, data in pieces for event in self._splitter.feed(data)]
            if not pieces:
                events = self._last(self._splitter)
            if events:
                return events
        return []

    def _last(self, splitter: EventSplitter) -> Events:
        self._over = True
        rest = splitter.rest()
        return [] if rest is None else [(time.perf_counter_ns(), rest)]

    async def _one(self) -> Events:
        if self._over:
            return []
        self._over = True
        parts = await self._all()
        return [(parts[-1][0], b"".join(data for _, data in parts))] if parts else []

    async def _all(self) -> Events:
        parts: Events = []
        while pieces := await self._connection.pieces():
            parts += pieces
        return parts

    async def read(self) -> bytes:
        """The whole body."""
        return b"".join(data for _, data in await self._all())

    def close(self) -> None:
        """Let the connection be used again after a whole answer; else close it, which tells the server to stop."""
        if self._connection.release():
            self._idle.append((time.monotonic(), self._connection))


async def _refused(reply: Reply) -> RequestFailed:
    # Triton refuses a generate_stream with one event
    data = (await reply.read()).removeprefix(b"data:").strip()
    try:
        document = parse_json(data)
    except ValueError:
        document = None
    return refusal(reply.status, document, data.decode("utf-8", errors="replace"))
