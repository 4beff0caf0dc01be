"""Showing statuses of long work in one of four ways: a live view on a terminal, lines in a log, JSON, nothing."""

from __future__ import annotations

import json
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import click
from rich.console import Group
from rich.live import Live
from rich.markup import escape

from trtspec.cli.output import Sink

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["LiveView"]

# a log that is no terminal gets a line this often, a program an object
_SECONDS = 15.0
_JSON_SECONDS = 1.0


class _Status(Protocol):
    def as_json(self) -> dict[str, Any]: ...


S = TypeVar("S", bound=_Status)


class LiveView(Generic[S]):
    """Shows statuses: "auto" is a live view on a terminal and now and then a line elsewhere.

    "plain" is a line now and then, "json" an object a line (the last one always), "none" nothing, as in quiet mode.
    """

    def __init__(self, sink: Sink, progress: str = "auto") -> None:
        self._sink = sink
        self._way = "none" if sink.mode == "quiet" and progress == "auto" else progress
        self._live: Live | None = None
        self._last: S | None = None
        self._written: S | None = None
        self._told = time.monotonic()

    def table(self, status: S) -> Group:
        """What the live view draws."""
        raise NotImplementedError

    def line(self, status: S) -> str:
        """The same in one line of plain text."""
        raise NotImplementedError

    def is_news(self, before: S | None, status: S) -> bool:
        """Whether a line is due at once, however short ago the last one was."""
        del before, status
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
        if self._way == "json" and self._last is not None and self._last is not self._written:
            self._write_json(self._last)

    def show(self, status: S) -> None:
        """Take in a status."""
        news = self.is_news(self._last, status)
        self._last = status
        if self._way == "none":
            return
        if self._way == "auto" and self._sink.err.is_terminal:
            self._begin_live()
        elif self._way == "json":
            if self._due(_JSON_SECONDS):
                self._write_json(status)
        elif self._due(_SECONDS) or news:
            self._told = time.monotonic()
            self._sink.note(escape(self.line(status)))

    def _due(self, seconds: float) -> bool:
        if time.monotonic() - self._told < seconds:
            return False
        self._told = time.monotonic()
        return True

    def _write_json(self, status: S) -> None:
        self._written = status
        click.echo(json.dumps({"event": "progress", **status.as_json()}), err=True)

    def _begin_live(self) -> None:
        if self._live is None:
            # drawn by a thread of its own, so that a request does not wait for the terminal
            self._live = Live(get_renderable=self._drawn, console=self._sink.err, refresh_per_second=4, transient=True)
            self._live.start()

    def _drawn(self) -> Group | str:
        return "" if self._last is None else self.table(self._last)
