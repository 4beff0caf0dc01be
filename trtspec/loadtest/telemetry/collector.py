"""Watching the servers while they are measured: counters around every block, gauges by the sampler process."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from trtspec.loadtest.telemetry.gpu import GpuMeter
from trtspec.loadtest.telemetry.samples import FILE_NAME
from trtspec.loadtest.telemetry.scrape import Growth, Key, Scrape, fetch, growth, to_rows
from trtspec.spec.names import Arm

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Source", "Telemetry", "metrics_address"]

# a second between samples costs a server a few milliseconds of one core
INTERVAL = 1.0
_TRITON_PORT = 8002
_END_WAIT = 3.0


@dataclass(frozen=True)
class Source:
    """Where an arm's server exports its metrics (http://HOST:PORT/metrics); None: not known."""

    metrics: str | None = None


def metrics_address(url: str, port: int | None = None) -> str | None:
    """Where the server at `url` exports metrics by convention; None when `url` names no host.

    An OpenAI-compatible server (`http://HOST:PORT/v1`) does on its own port, Triton on `port` (8002 by default).
    """
    parts = urlsplit(url if "://" in url else f"grpc://{url}")
    if not parts.hostname:
        return None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    if parts.path.rstrip("/").endswith("/v1"):
        return f"{parts.scheme}://{parts.netloc}/metrics"
    return f"http://{host}:{port or _TRITON_PORT}/metrics"


@dataclass
class _Grown:
    """What an arm's counters grew by in all blocks of a load."""

    values: dict[Key, float] = field(default_factory=dict)
    reset: bool = False
    blocks: int = 0
    reason: str | None = None

    def add(self, more: Growth, reason: str | None) -> None:
        self.blocks += 1
        self.reset, self.reason = self.reset or more.reset, self.reason or reason
        for key, amount in more.values.items():
            self.values[key] = self.values.get(key, 0.0) + amount


class Telemetry:
    """Runs the sampler during `async with`; `before` and `after` enclose an arm's block while nothing else runs.

    `folder` receives telemetry.jsonl. Without any address and without a GPU no process is started.
    """

    def __init__(self, sources: Mapping[Arm, Source], folder: Path, interval: float = INTERVAL) -> None:
        self._sources, self._folder, self._interval = sources, folder, interval
        self._grown: dict[tuple[Arm, str], _Grown] = {}
        self._open: dict[Arm, Scrape] = {}
        self._sampler: subprocess.Popen[bytes] | None = None
        self._gpu_reason = GpuMeter().reason

    async def __aenter__(self) -> Self:
        addresses = {arm: source.metrics for arm, source in self._sources.items() if source.metrics}
        if addresses or self._gpu_reason is None:
            out = str((self._folder / FILE_NAME).absolute())
            options = {"metrics": addresses, "out": out, "interval": self._interval}
            self._sampler = subprocess.Popen(  # noqa: ASYNC220 - returns at once
                [sys.executable, "-m", __package__ or "", json.dumps(options)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sampler is None or self._sampler.stdin is None:
            return
        with suppress(OSError):
            self._sampler.stdin.close()
        try:
            await asyncio.to_thread(self._sampler.wait, _END_WAIT)
        except subprocess.TimeoutExpired:
            self._sampler.kill()
            self._sampler.wait()

    async def before(self, arm: Arm) -> None:
        """Note the counters of `arm`'s server; without an address of its metrics nothing is asked."""
        self._open[arm] = await self._scrape(arm)

    async def after(self, arm: Arm, load: str) -> None:
        """Add what they grew by since `before` to the figures of `load`."""
        begin, end = self._open.pop(arm, None), await self._scrape(arm)
        if begin is not None:
            grown = self._grown.setdefault((arm, load), _Grown())
            grown.add(growth(begin, end), begin.reason or end.reason)

    async def _scrape(self, arm: Arm) -> Scrape:
        source = self._sources.get(arm, Source())
        return await asyncio.to_thread(fetch, source.metrics)

    def as_json(self) -> list[dict[str, Any]]:
        """For measurement.json: one entry an arm and load with what its counters grew by."""
        return [
            {
                "arm": arm,
                "load": load,
                "blocks": grown.blocks,
                "reset": grown.reset,
                "reason": grown.reason,
                "growth": to_rows(grown.values),
                "gpus": self._gpu_reason,
            }
            for (arm, load), grown in self._grown.items()
        ]
