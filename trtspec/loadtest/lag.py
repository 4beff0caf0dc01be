"""How late the load generator itself is: a timer that notes by how much its own event loop oversleeps."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from typing import Any

from trtspec.loadtest.distribution import percentile

__all__ = ["SelfCheck"]

_TICK = 0.02


class SelfCheck:
    """Measures the event loop's lag and the process's CPU time during an `async with` block."""

    def __init__(self) -> None:
        self._lags: list[float] = []
        self._task: asyncio.Task[None] | None = None
        self._started = self._started_cpu = 0.0

    async def __aenter__(self) -> SelfCheck:  # noqa: PYI034 - not meant to be derived from
        self._started, self._started_cpu = time.perf_counter(), time.process_time()
        self._task = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _tick(self) -> None:
        while True:
            due = time.perf_counter() + _TICK
            await asyncio.sleep(_TICK)
            self._lags.append(max(0.0, time.perf_counter() - due))

    def result(self) -> dict[str, Any]:
        """Up to now: seconds of lag, the share of one CPU that the generator used, and the machine's CPUs."""
        wall, cpu = time.perf_counter() - self._started, time.process_time() - self._started_cpu
        ordered = sorted(self._lags)
        lag = {f"p{rank}": percentile(ordered, rank) for rank in (50, 99)} if ordered else {"p50": None, "p99": None}
        return {
            "loop_lag": {**lag, "max": ordered[-1] if ordered else None, "count": len(ordered), "unit": "s"},
            "cpu_share": cpu / wall if wall > 0 else None,
            "cpus": os.cpu_count(),
        }
