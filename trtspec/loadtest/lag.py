"""How late the load generator itself is: its event loop's oversleeping, its CPU time, and how late it sent."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from trtspec.loadtest.distribution import percentile

__all__ = ["SelfCheck", "SendLag", "merged_reports"]

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
        return {
            "loop_lag": _lag_row(self._lags),
            "cpu_share": cpu / wall if wall > 0 else None,
            "cpus": os.cpu_count(),
            "workers": 1,
        }


class SendLag:
    """Collects how many seconds after its time each request of an open loop was sent.

    Beyond a million, every second one is kept of those that follow, then every fourth, and so on.
    """

    _MOST = 1_000_000

    def __init__(self) -> None:
        self._lags: list[float] = []
        self._seen = 0
        self._stride = 1
        self._largest = 0.0

    def add(self, seconds: float) -> None:
        """Take in one request."""
        self._largest = max(self._largest, seconds)
        if self._seen % self._stride == 0:
            self._lags.append(seconds)
            if len(self._lags) >= self._MOST:
                self._lags = self._lags[::2]
                self._stride *= 2
        self._seen += 1

    def result(self) -> dict[str, Any] | None:
        """p50, p99, largest and how many; None when no request had a time of its own."""
        return {**_lag_row(self._lags), "max": self._largest, "count": self._seen} if self._seen else None


def _lag_row(lags: Sequence[float]) -> dict[str, Any]:
    ordered = sorted(lags)
    shown = {f"p{rank}": percentile(ordered, rank) for rank in (50, 99)} if ordered else {"p50": None, "p99": None}
    return {**shown, "max": ordered[-1] if ordered else None, "count": len(ordered), "unit": "s"}


def merged_reports(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One report for several processes: the lag of the worst one, CPU added up, each one's own in `processes`."""
    lags = [report["loop_lag"] for report in reports]
    worst = max(lags, key=lambda lag: -math.inf if lag["p99"] is None else lag["p99"], default=_lag_row([]))
    shares = [report["cpu_share"] for report in reports if report["cpu_share"] is not None]
    return {
        "loop_lag": {**worst, "count": sum(lag["count"] for lag in lags)},
        "cpu_share": sum(shares) if shares else None,
        "cpus": os.cpu_count(),
        "workers": len(reports),
        "processes": [dict(report) for report in reports],
    }
