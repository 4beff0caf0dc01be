"""The event loop that load is sent from."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

__all__ = ["frozen_heap", "interruptible", "run_loop"]

Result = TypeVar("Result")


def run_loop(work: Coroutine[Any, Any, Result]) -> Result:
    """`asyncio.run` on uvloop where it is installed, which halves the time a chunk costs."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


@contextmanager
def interruptible(work: asyncio.Task[None]) -> Iterator[None]:
    """Ctrl-C cancels `work`; a second one is Python's own KeyboardInterrupt again."""
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        work.cancel()

    # only the main thread may; elsewhere (a test) Ctrl-C stays as it is
    with suppress(ValueError, RuntimeError, NotImplementedError):
        loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        with suppress(ValueError, RuntimeError, NotImplementedError):
            loop.remove_signal_handler(signal.SIGINT)


@asynccontextmanager
async def frozen_heap() -> AsyncIterator[None]:
    """Keep the garbage collector from walking what was there before, which would stop the loop for a while."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
