"""A load process: does what its parent's messages say (`trtspec.loadtest.workers`)."""

from __future__ import annotations

import asyncio
import ctypes
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any

from trtspec.loadtest.crew import LocalCrew, run_half
from trtspec.loadtest.loop import frozen_heap, run_loop
from trtspec.loadtest.share import Finish, Share
from trtspec.loadtest.workers import Orders, Setup, receive, send

__all__: list[str] = []

_PR_SET_PDEATHSIG = 1


class _Worker:
    def __init__(self, setup: Setup, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._setup, self._reader, self._writer = setup, reader, writer
        self._crew = LocalCrew(setup.addresses, setup.options, lambda record: self._tell("record", record))
        self._work: asyncio.Task[None] | None = None
        self._finish: Finish | None = None

    def _tell(self, *message: Any) -> None:
        send(self._writer, *message)

    async def serve(self) -> None:
        """Do what is asked until the parent is gone."""
        async with self._crew, frozen_heap():
            self._tell("ready")
            while (message := await receive(self._reader)) is not None:
                await self._do(*message)
            await self._stop()

    async def _do(self, word: str, *contents: Any) -> None:
        if word == "run":
            self._work = asyncio.create_task(self._run(contents[0]))
        elif word == "over" and self._finish is not None:
            self._finish.over.set()
        elif word == "cancel":
            await self._stop()
            self._tell("cancelled")
        elif word == "clock":
            self._tell("clock", time.perf_counter_ns())
        elif word == "report":
            self._tell("report", await self._crew.report())

    async def _run(self, orders: Orders) -> None:
        half = orders.half
        share = Share(half.block, half.traffic, orders.part, orders.parts)
        self._finish = Finish(len(share.pieces), lambda: self._tell("mine"))
        client = self._crew.clients[half.arm]
        try:
            await run_half(client, half, share, self._finish, begin_ns=orders.begin_ns)
        except Exception as error:  # noqa: BLE001 - the parent reports it
            self._tell("error", f"{type(error).__name__}: {error}")
            return
        finally:
            self._finish = None
        self._tell("ended", {arm: self._crew.down(arm) for arm in self._setup.addresses})

    async def _stop(self) -> None:
        if self._work is not None and not self._work.done():
            self._work.cancel()
            with suppress(asyncio.CancelledError):
                await self._work


async def _main(descriptor: int) -> None:
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=descriptor))
    message = await receive(reader)
    if message is None:
        return
    try:
        await _Worker(message[1], reader, writer).serve()
    except Exception as error:  # noqa: BLE001 - the parent reports it
        send(writer, "error", f"{type(error).__name__}: {error}")
        await writer.drain()


def _end_with_parent() -> None:
    """Ask the system to end this process when its parent has, even where it is stopped or stuck (Linux)."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    _end_with_parent()
    run_loop(_main(int(sys.argv[1])))
