"""A real HTTP server on a real socket that sends exactly the bytes of a script, at the times of a script.

It runs an event loop in a thread of its own, so that a client and the server do not share one.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Asked", "Break", "Head", "Send", "SseServer", "Step", "event", "events", "json_answer"]

_WAIT = 30.0


@dataclass(frozen=True)
class Asked:
    """A request as the server saw it, at `t_ns` (time.perf_counter_ns)."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    t_ns: int

    @property
    def document(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Head:
    """Status and type; without one a script answers 200 with an event stream. A length of -1: in chunks."""

    status: int = 200
    content_type: str = "text/event-stream"
    length: int = -1


@dataclass(frozen=True)
class Send:
    """Bytes in one write, `at_ms` after the request arrived."""

    data: bytes
    at_ms: float = 0.0


@dataclass(frozen=True)
class Break:
    """The connection is cut, as when the process dies."""

    at_ms: float = 0.0


Step = Head | Send | Break
Script = Callable[[Asked], Iterable[Step]]


def event(document: Any) -> bytes:
    """One server-sent event; bytes go as they are."""
    data = document if isinstance(document, bytes) else json.dumps(document, ensure_ascii=False).encode()
    return b"data: " + data + b"\n\n"


def events(*documents: Any, at_ms: float = 0.0, gap_ms: float = 0.0) -> list[Step]:
    """Each document an event of its own write."""
    return [Send(event(document), at_ms + index * gap_ms) for index, document in enumerate(documents)]


def json_answer(document: Any, status: int = 200) -> list[Step]:
    """A plain JSON document."""
    data = json.dumps(document).encode()
    return [Head(status, "application/json", len(data)), Send(data)]


@dataclass
class SseServer:
    """`with SseServer(script) as server:` listens on `server.url`.

    `asked` are the requests so far, `sent` the times (ns) of every write by request, `left` the paths of requests whose
    client went away before the script had ended, `connections` how many were opened.
    """

    script: Script
    asked: list[Asked] = field(default_factory=list)
    sent: list[list[int]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    connections: int = 0
    url: str = ""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        assert started.wait(_WAIT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_WAIT)
        assert not self._thread.is_alive()

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve(started))
        self._loop.close()

    async def _serve(self, started: threading.Event) -> None:
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=1 << 26)
        host, port = server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        started.set()
        await self._stop.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while (asked := await _read_request(reader)) is not None:
                self.asked.append(asked)
                sent: list[int] = []
                self.sent.append(sent)
                await self._play(asked, sent, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _play(
        self, asked: Asked, sent: list[int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        steps = list(self.script(asked))
        head = steps.pop(0) if steps and isinstance(steps[0], Head) else Head()
        assert isinstance(head, Head)
        writer.write(_head(head))
        for step in steps:
            assert not isinstance(step, Head)
            if not await self._wait(asked, step.at_ms, reader, writer):
                self.left.append(asked.path)
                raise ConnectionError
            if isinstance(step, Break):
                raise ConnectionError
            sent.append(time.perf_counter_ns())
            writer.write(step.data if head.length >= 0 else b"%x\r\n%s\r\n" % (len(step.data), step.data))
        if head.length < 0:
            writer.write(b"0\r\n\r\n")

    async def _wait(
        self, asked: Asked, at_ms: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """False when the client has gone."""
        while (left := asked.t_ns / 1e9 + at_ms / 1e3 - time.perf_counter()) > 0:
            if reader.at_eof() or writer.is_closing():
                return False
            await asyncio.sleep(min(left, 0.02))
        await writer.drain()
        return not reader.at_eof()


async def _read_request(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(method, path, headers, body, time.perf_counter_ns())


def _head(head: Head) -> bytes:
    size = "Transfer-Encoding: chunked" if head.length < 0 else f"Content-Length: {head.length}"
    return f"HTTP/1.1 {head.status} X\r\nContent-Type: {head.content_type}\r\n{size}\r\n\r\n".encode()
