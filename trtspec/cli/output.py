"""Where results and chatter go: data on stdout, progress and notes on stderr."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from trtspec.cli.activity import ActivityBoard
from trtspec.progress import Advance, Tell

__all__ = ["OutputMode", "Sink"]

OutputMode = Literal["human", "json", "quiet"]


@dataclass
class Sink:
    """The one way out of a command. Also a `trtspec.progress.Reporter`."""

    mode: OutputMode = "human"
    out: Console = field(default_factory=lambda: Console(highlight=False, soft_wrap=True))
    err: Console = field(default_factory=lambda: Console(stderr=True, highlight=False, soft_wrap=True))
    _board: ActivityBoard | None = field(default=None, repr=False)

    def result(self, data: Mapping[str, Any], human: Callable[[Console], None], quiet: str = "") -> None:
        """Print a command's result: JSON, what `human` draws, or the bare `quiet` line (an id or a path)."""
        if self.mode == "json":
            click.echo(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))
        elif self.mode == "quiet":
            if quiet:
                click.echo(quiet)
        else:
            human(self.out)

    def note(self, text: str) -> None:
        """One line of chatter on stderr (markup allowed); dropped in quiet mode."""
        if self.mode != "quiet":
            self.err.print(text)

    @contextmanager
    def task(self, label: str, total: float | None = None, unit: str = "") -> Iterator[Advance]:
        """A progress bar on stderr for the `with` block; silent when stderr is not a terminal or mode is quiet."""
        if self.mode == "quiet" or not self.err.is_terminal:
            yield lambda _amount: None
            return
        with Progress(*_columns(total, unit), console=self.err, transient=True) as progress:
            bar = progress.add_task(label, total=total)
            yield lambda amount: progress.advance(bar, amount)

    @contextmanager
    def activity(self, label: str) -> Iterator[Tell]:
        """A running program on stderr for the `with` block (see `ActivityBoard`); silent in quiet mode."""
        if self.mode == "quiet":
            yield lambda _line: None
            return
        if self._board is None:
            self._board = ActivityBoard(self.err)
        with self._board.show(label) as tell:
            yield tell


def _columns(total: float | None, unit: str) -> list[ProgressColumn]:
    columns: list[ProgressColumn] = [SpinnerColumn(), TextColumn("{task.description}"), BarColumn()]
    if unit == "bytes":
        columns.append(DownloadColumn(binary_units=True))
    elif total is not None:
        columns += [MofNCompleteColumn(), TextColumn(unit)]
    return [*columns, TimeElapsedColumn(), TimeRemainingColumn()]
