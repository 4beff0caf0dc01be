"""Where results and chatter go: data on stdout, progress and notes on stderr."""

from __future__ import annotations

import json
import sys
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
from rich.text import Text

from trtspec.cli.activity import ActivityBoard
from trtspec.progress import Advance, Tell

__all__ = ["OutputMode", "Sink", "print_json"]

_NARROWEST, _USUAL = 8, 80
OutputMode = Literal["human", "json", "quiet"]


# control and direction characters, which texts from checkpoints and answers could steer a terminal with
_UNSEEN = {
    code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
    for code in (*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    if chr(code) not in "\n\r\t"
}


class _Console(Console):
    """A console that shows control characters in texts instead of sending them."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(text.translate(_UNSEEN), **options)


def _console(*, stderr: bool) -> Console:
    console = _Console(stderr=stderr, highlight=False, soft_wrap=True, emoji=False)
    if console.width < _NARROWEST:  # COLUMNS=0, as some schedulers set it: nothing would be printed
        console.width = _USUAL
    return console


@dataclass
class Sink:
    """The one way out of a command. Also a `trtspec.progress.Reporter`."""

    mode: OutputMode = "human"
    out: Console = field(default_factory=lambda: _console(stderr=False))
    err: Console = field(default_factory=lambda: _console(stderr=True))
    _board: ActivityBoard | None = field(default=None, repr=False)

    def result(self, data: Mapping[str, Any], human: Callable[[Console], None], quiet: str = "") -> None:
        """Print a command's result: JSON, what `human` draws, or the bare `quiet` line (an id or a path)."""
        if self.mode == "json":
            print_json(data)
        elif self.mode == "quiet":
            if quiet:
                click.echo(quiet.translate(_UNSEEN))
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


def print_json(data: Mapping[str, Any]) -> None:
    """One JSON document on stdout; what its encoding cannot hold (in UTF-8: half a surrogate pair) is escaped."""
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(data, indent=2, allow_nan=False)
    click.echo(text)


def _columns(total: float | None, unit: str) -> list[ProgressColumn]:
    columns: list[ProgressColumn] = [SpinnerColumn(), TextColumn("{task.description}"), BarColumn()]
    if unit == "bytes":
        columns.append(DownloadColumn(binary_units=True))
    elif total is not None:
        columns += [MofNCompleteColumn(), TextColumn(unit)]
    return [*columns, TimeElapsedColumn(), TimeRemainingColumn()]
