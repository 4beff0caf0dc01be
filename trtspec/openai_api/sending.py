"""Answers on their way to a client, and what happens when it goes away first."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from trtspec.openai_api.answers import Answer
from trtspec.openai_api.failures import ApiError
from trtspec.wire import Chunk

__all__ = ["EventStream", "collect", "events", "unless_gone"]

_T = TypeVar("_T")
_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}  # proxies must not hold back pieces


async def unless_gone(request: Request, work: Awaitable[_T]) -> _T:
    """The result of `work`, which is cancelled when the client goes away before; then ApiError 499."""
    task, gone = asyncio.ensure_future(work), asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ApiError(499, "the client has gone", code="cancelled")
        return task.result()
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def collect(chunks: AsyncGenerator[Chunk, None]) -> list[Chunk]:
    """All chunks."""
    async with aclosing(chunks):
        return [chunk async for chunk in chunks]


async def events(answer: Answer, chunks: AsyncGenerator[Chunk, None]) -> AsyncGenerator[bytes, None]:
    """Server-sent events of an answer, `[DONE]` last. Failures before the first are raised, later ones are events."""
    begun = False
    async with aclosing(chunks):
        try:
            async for chunk in chunks:
                for document in answer.parts(chunk):
                    begun = True
                    yield _event(document)
            yield b"data: [DONE]\n\n"
        except ApiError as error:
            if not begun:
                raise
            yield _event(error.document())


def _event(document: dict[str, Any]) -> bytes:
    return b"data: %s\n\n" % json.dumps(document, separators=(",", ":")).encode()


class EventStream(StreamingResponse):
    """Sends `first` and then the rest of `rest`; when the client goes away, `rest` is closed at once."""

    def __init__(self, first: bytes, rest: AsyncGenerator[bytes, None], headers: dict[str, str]) -> None:
        super().__init__(_chained(first, rest), headers={**_HEADERS, **headers}, media_type="text/event-stream")
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        async with aclosing(self._rest):
            await super().__call__(scope, receive, send)


async def _chained(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    yield first
    async for event in rest:
        yield event
