"""HTTP with arrival times: one aiohttp session whose sockets are stamped before anything is parsed.

The times come from the protocol that the event loop hands the bytes to, not from the task that reads them: with many
streams at once a task may wake several milliseconds later. aiohttp and orjson are imported when a session is opened.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import time
from collections.abc import Callable
from functools import lru_cache, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

from trtspec.errors import RequestFailed, UsageError
from trtspec.wire.refusals import refusal
from trtspec.wire.sse import EventSplitter

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Events", "HttpSession", "Reply", "parse_json"]

# less than uvicorn's 5 s: a server must not close a connection in the moment in which it is used again
_KEEP_ALIVE = 4.0
_KEY_VARIABLE = "TRTSPEC_API_KEY"
_LONGEST_ERROR = 64 * 1024
_OK = 200

# (offset behind the bytes in the response's body, when they arrived)
_Marks = list[tuple[int, int]]
Events = list[tuple[int, bytes]]


def parse_json(data: bytes) -> Any:
    """The JSON in `data`; what is no UTF-8 in it becomes U+FFFD. ValueError when it is no JSON."""
    try:
        return _loads()(data)
    except ValueError:
        # orjson refuses bad UTF-8 and lone surrogates, which servers do send in the middle of a character
        text = data.decode("utf-8", errors="replace")
        return _clean(json.loads(text))


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
    """Connections to `url` (scheme, host and port, and a path that all requests share), closed on leaving."""

    def __init__(self, url: str) -> None:
        self.url = url.partition("#")[0].rstrip("/")
        self._authorities = unquote(urlsplit(url).fragment) or None
        self._session: Any = None
        self._marks: dict[int, _Marks] = {}

    async def __aenter__(self) -> Self:
        import aiohttp

        key = os.environ.get(_KEY_VARIABLE)
        self._session = aiohttp.ClientSession(
            connector=_connector(self._marks, self._tls()),
            headers={"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})},
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    def _tls(self) -> ssl.SSLContext | bool:
        if self._authorities is None:
            return True
        try:
            return ssl.create_default_context(cafile=self._authorities)
        except OSError as error:
            raise UsageError(f"cannot read the certificate: {error}", fix="https://HOST:PORT#CA.pem") from None

    async def post(self, path: str, body: bytes, *, timeout: float) -> Reply:
        """The answer to `body`, once its head has come; to be closed.

        RequestFailed for another status than 200, and where the connection fails.
        """
        response = None
        try:
            response = await self._session.post(_url(self.url + path), data=body, timeout=_timeout(timeout))
            await _check_status(response)
        except Exception as error:  # noqa: BLE001 - whatever aiohttp raises is one failed request
            if response is not None:
                response.close()
            raise _failure(error, timeout) from None
        return Reply(response, self._marks, timeout)

    async def document(self, path: str, *, timeout: float = 10, post: bool = False) -> Any:
        """The JSON of a GET (or an empty POST), None for an empty body; RequestFailed as `post` raises it."""
        method = "POST" if post else "GET"
        try:
            async with self._session.request(method, self.url + path, timeout=_timeout(timeout)) as response:
                self._marks.pop(id(response.content), None)
                await _check_status(response)
                return parse_json(await response.read() or b"null")
        except ValueError:
            raise RequestFailed(f"{path} is no JSON", code="bad_response") from None
        except Exception as error:  # noqa: BLE001 - as above
            raise _failure(error, timeout) from None


class Reply:
    """An answer that is being received."""

    def __init__(self, response: Any, marks: dict[int, _Marks], timeout: float) -> None:
        self._response, self._all_marks, self._timeout = response, marks, timeout
        self._marks = marks.get(id(response.content), [])
        streamed = response.headers.get("Content-Type", "").startswith("text/event-stream")
        self._splitter = EventSplitter() if streamed else None
        self._whole = False

    async def events(self) -> Events:
        """What has arrived together: (arrival in ns, data) of each server-sent event; empty when all have come.

        A body that is no event stream is one event. RequestFailed when the connection breaks off, and when the answer
        is not complete within the timeout of the request.
        """
        try:
            while not self._whole:
                if self._splitter is None:
                    return await self._one()
                data = await self._response.content.readany()
                events = self._splitter.feed(data) if data else self._last(self._splitter)
                if events:
                    return [(self._arrival(end), event) for end, event in events]
        except Exception as error:  # noqa: BLE001 - as above
            raise _failure(error, self._timeout) from None
        return []

    def _last(self, splitter: EventSplitter) -> Events:
        self._whole = True
        rest = splitter.rest()
        return [] if rest is None else [(self._response.content.total_bytes, rest)]

    async def _one(self) -> Events:
        data = await self._response.read()
        self._whole = True
        return [(self._arrival(len(data)), data)]

    def _arrival(self, offset: int) -> int:
        """When the byte before `offset` arrived, asked for in order; now, where that was not stamped."""
        marks = self._marks
        # what was asked for last is kept: several events may end in the same bytes
        while marks and marks[0][0] < offset:
            del marks[0]
        return marks[0][1] if marks else time.perf_counter_ns()

    def close(self) -> None:
        """Let the connection be used again after a whole answer; else close it, which tells the server to stop."""
        self._all_marks.pop(id(self._response.content), None)
        (self._response.release if self._whole else self._response.close)()


def _connector(marks: dict[int, _Marks], tls: ssl.SSLContext | bool) -> Any:
    """A connector whose protocols note in `marks`, by the id of a body's reader, what arrived when."""
    import aiohttp
    from aiohttp.client_proto import ResponseHandler

    class Stamped(ResponseHandler):
        stamped: Any = None
        own: _Marks

        def data_received(self, data: bytes) -> None:
            now = time.perf_counter_ns()
            super().data_received(data)
            body = self._payload
            if body is None:
                return
            if body is not self.stamped:
                # a new one, whose id may once have been another's
                self.stamped, self.own = body, []
                marks[id(body)] = self.own
            self.own.append((body.total_bytes, now))

    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE, ssl=tls)
    # no public way to choose the protocol; without it the times would be those of the reading task
    connector._factory = cast("partial[ResponseHandler]", partial(Stamped, loop=asyncio.get_running_loop()))
    return connector


@lru_cache
def _url(text: str) -> Any:
    from yarl import URL

    return URL(text)


@lru_cache
def _timeout(seconds: float) -> Any:
    import aiohttp

    return aiohttp.ClientTimeout(total=seconds, ceil_threshold=float("inf"))


async def _check_status(response: Any) -> None:
    if response.status == _OK:
        return
    data = await response.content.read(_LONGEST_ERROR)
    # Triton refuses a generate_stream with one event
    data = data.removeprefix(b"data:").strip()
    try:
        document = parse_json(data)
    except ValueError:
        document = None
    raise refusal(response.status, document, data.decode("utf-8", errors="replace"))


def _failure(error: Exception, timeout: float) -> Exception:
    """RequestFailed for what went wrong on the connection; other exceptions are given back as they are."""
    import aiohttp

    if isinstance(error, asyncio.TimeoutError):  # not TimeoutError before Python 3.11
        return RequestFailed(f"no complete answer within {timeout:g} s", code="timeout")
    if isinstance(error, aiohttp.ClientPayloadError):
        return RequestFailed("stream ended early: the connection broke off", code="ended_early")
    if isinstance(error, aiohttp.InvalidURL):
        return UsageError(f"{error}: not an address", fix="http://HOST:PORT")
    if isinstance(error, (aiohttp.ClientError, OSError)):
        return RequestFailed(f"the server does not answer: {error or type(error).__name__}", code="unavailable")
    return error
