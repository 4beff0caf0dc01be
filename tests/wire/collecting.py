"""Sending requests to a target and keeping what comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

import uvloop

from trtspec.wire import Chunk, FrontendRequest, open_target

__all__ = ["TIMEOUT", "collect", "collect_many", "run_loop"]

Result = TypeVar("Result")

TIMEOUT = 60.0


def collect(
    url: str, request: FrontendRequest, *, kind: str = "auto", model: str | None = None, timeout: float = TIMEOUT
) -> list[Chunk]:
    """The chunks of one request; RequestFailed as the target raises it."""
    (chunks,) = collect_many(url, [request], kind=kind, model=model, timeout=timeout)
    return chunks


def collect_many(
    url: str, requests: list[FrontendRequest], *, kind: str = "auto", model: str | None = None, timeout: float = TIMEOUT
) -> list[list[Chunk]]:
    """The chunks of each of several requests that are sent at once."""

    async def run() -> list[list[Chunk]]:
        async with open_target(url, kind=kind, model=model) as target:

            async def one(request: FrontendRequest) -> list[Chunk]:
                async with aclosing(target.stream(request, timeout=timeout)) as chunks:
                    return [chunk async for chunk in chunks]

            return await asyncio.gather(*map(one, requests))

    return run_loop(run())


def run_loop(work: Coroutine[Any, Any, Result]) -> Result:
    """`asyncio.run` on uvloop, the loop of the load test."""
    return uvloop.run(work)
