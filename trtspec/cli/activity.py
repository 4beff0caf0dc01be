"""Programs that run for minutes, on stderr: one live line each on a terminal, now and then a plain line elsewhere."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from trtspec.progress import Tell
from trtspec.units import duration_text

__all__ = ["ActivityBoard"]

_STAMP = re.compile(r"^\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] ")  # what TensorRT-LLM's logger begins a line with
_PLAIN_EVERY = 60.0  # seconds between two lines about one program where there is no terminal


@dataclass
class _Activity:
    label: str
    started: float
    line: str = ""
    told: float = 0.0

    @property
    def elapsed(self) -> str:
        return duration_text(time.monotonic() - self.started)


@dataclass
class ActivityBoard:
    """Shows what runs; several threads may use it at once."""

    console: Console
    _running: list[_Activity] = field(default_factory=list)
    _live: Live | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def show(self, label: str) -> Iterator[Tell]:
        """A line for the `with` block; call the yielded function with the program's latest line."""
        activity = _Activity(label, time.monotonic(), told=time.monotonic())
        self._enter(activity)
        try:
            yield lambda line: self._tell(activity, line)
        except BaseException as error:
            self._leave(activity, "[red]failed[/]" if isinstance(error, Exception) else "[yellow]stopped[/]")
            raise
        self._leave(activity, "[green]done[/]")

    def _enter(self, activity: _Activity) -> None:
        with self._lock:
            self._running.append(activity)
            if not self.console.is_terminal:
                self.console.print(f"{escape(activity.label)} …")
            elif self._live is None:
                self._live = Live(
                    get_renderable=self._table, console=self.console, refresh_per_second=4, transient=True
                )
                self._live.start()

    def _leave(self, activity: _Activity, how: str) -> None:
        with self._lock:
            self._running.remove(activity)
            if not self._running and self._live is not None:
                self._live.stop()
                self._live = None
            self.console.print(f"{escape(activity.label)}: {how} [dim]{activity.elapsed}[/]")

    def _tell(self, activity: _Activity, line: str) -> None:
        activity.line = line
        now = time.monotonic()
        if not self.console.is_terminal and now - activity.told > _PLAIN_EVERY:
            activity.told = now
            self.console.print(f"{escape(activity.label)}: {activity.elapsed} · {escape(line)}")

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2), expand=True)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, justify="right")
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for activity in list(self._running):
            line = _STAMP.sub("", activity.line)
            table.add_row(f"[bold]{escape(activity.label)}[/]", activity.elapsed, f"[dim]{escape(line)}[/]")
        return table
