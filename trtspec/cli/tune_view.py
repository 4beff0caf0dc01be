"""What a search shows: live while it runs, and its table afterwards."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table

from trtspec.cli.output import Sink
from trtspec.units import duration_text

if TYPE_CHECKING:
    from typing_extensions import Self

    from trtspec.tuning import TuneStatus

__all__ = ["TuneView", "print_tuning", "tune_line", "tune_table"]

_SECONDS = 15.0
_JSON_SECONDS = 1.0
_DASH = "–"


class TuneView:
    """Shows statuses: "auto" is a live view on a terminal and lines elsewhere; "plain", "json" and "none" as named."""

    def __init__(self, sink: Sink, progress: str = "auto") -> None:
        self._sink = sink
        self._way = "none" if sink.mode == "quiet" and progress == "auto" else progress
        self._live: Live | None = None
        self._last: TuneStatus | None = None
        self._told = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
        if self._way == "json" and self._last is not None:
            self._write_json(self._last)

    def show(self, status: TuneStatus) -> None:
        """Take in a status."""
        new_rung = self._last is None or (self._last.phase, self._last.rung) != (status.phase, status.rung)
        self._last = status
        if self._way == "auto" and self._sink.err.is_terminal:
            self._begin_live()
        elif self._way == "json" and self._due(_JSON_SECONDS):
            self._write_json(status)
        elif self._way in {"auto", "plain"} and (self._due(_SECONDS) or new_rung):
            self._told = time.monotonic()
            self._sink.note(escape(tune_line(status)))

    def _due(self, seconds: float) -> bool:
        if time.monotonic() - self._told < seconds:
            return False
        self._told = time.monotonic()
        return True

    def _write_json(self, status: TuneStatus) -> None:
        click.echo(json.dumps({"event": "progress", **status.as_json()}), err=True)

    def _begin_live(self) -> None:
        if self._live is None:
            # drawn by a thread of its own, so that a request does not wait for the terminal
            self._live = Live(get_renderable=self._drawn, console=self._sink.err, refresh_per_second=4, transient=True)
            self._live.start()

    def _drawn(self) -> Group | str:
        return "" if self._last is None else tune_table(self._last)


def tune_table(status: TuneStatus) -> Group:
    """Each level's race, and below it how far the rung and the budget are."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0))
    for column in ("load", "in the race", "leads", "speed-up"):
        table.add_column(column)
    for label, level in status.levels.items():
        mark = "▶ " if label == status.load else "  "
        racing = "settled" if level.settled else ", ".join(level.racing)
        speedup = _DASH if level.speedup is None else f"{level.speedup:.2f}×"
        table.add_row(escape(mark + label), escape(racing), escape(level.leader or _DASH), speedup)
    foot = Table.grid(padding=(0, 2))
    bar = ProgressBar(total=status.total, completed=status.done, width=32)
    foot.add_row(_phase(status), bar, f"{status.done}/{status.total} blocks", f"draft {escape(status.candidate)}")
    foot.add_row("budget", ProgressBar(total=status.budget, completed=status.spent, width=32), _budget(status), "")
    return Group(table, foot)


def _phase(status: TuneStatus) -> str:
    return f"rung {status.rung + 1}" if status.phase == "search" else "winners again"


def _budget(status: TuneStatus) -> str:
    return f"{duration_text(status.spent)} of {duration_text(status.budget)}"


def tune_line(status: TuneStatus) -> str:
    """One line: rung, blocks, time, and who leads at each level."""
    levels = [
        f"{label}: {level.leader or '?'} of {len(level.racing)}{' settled' * level.settled}"
        for label, level in status.levels.items()
    ]
    return "  ".join([_phase(status), f"{status.done}/{status.total} blocks", _budget(status), *levels])


def print_tuning(console: Console, data: Mapping[str, Any], diff: str | None) -> None:
    """The recommendation, the table of every cell, the winners' own measurement, warnings and the spec's diff."""
    console.print(f"[bold]{escape(data['verdict'])}[/]\n")
    _cells(console, data)
    _winners(console, data)
    for warning in data["warnings"]:
        console.print(f"[yellow]note:[/] {escape(warning)}")
    if diff:
        console.print()
        for line in diff.splitlines():
            colour = {"+": "green", "-": "red"}.get(line[:1], "dim")
            console.print(f"[{colour}]{escape(line)}[/]")
    console.print()


def _cells(console: Console, data: Mapping[str, Any]) -> None:
    """Draft lengths down, loads across: the speed-up in the race, the winner marked, those that went dim."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0))
    table.add_column("draft length")
    for level in data["levels"]:
        table.add_column(escape(level["load"]), justify="right")
    for index, candidate in enumerate(data["candidates"]):
        table.add_row(escape(candidate), *(_speedup(level, level["cells"][index]) for level in data["levels"]))
    console.print(table)
    console.print("[dim]speed-up in the race, with the reach of its interval; ▸ won, in brackets: dropped[/]\n")


def _speedup(level: Mapping[str, Any], cell: Mapping[str, Any]) -> str:
    found = cell["speedup"]
    if found["estimate"] is None:
        return _DASH
    reach = "" if found["low"] is None else f" ±{(found['high'] - found['low']) / 2:.2f}"
    text = f"{found['estimate']:.2f}×{reach}"
    if cell["candidate"] == level["winner"]:
        return f"[bold]▸ {text}[/]"
    return f"[dim]({text})[/]" if cell["dropped"] else text


def _winners(console: Console, data: Mapping[str, Any]) -> None:
    known = [level for level in data["levels"] if level["winner"] is not None]
    if not known:
        return
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0))
    columns = ("load", "winner", "on fresh prompts", "pairs", "tokens/s", "without")
    for column in columns:
        table.add_column(column, justify="left" if column in {"load", "winner"} else "right", overflow="fold")
    for level in known:
        table.add_row(escape(level["load"]), escape(level["winner"]), *_confirmed(level))
    console.print(table)


def _confirmed(level: Mapping[str, Any]) -> tuple[str, ...]:
    found = level["confirmed"]
    if found is None:
        return (_DASH, _DASH, _DASH, _number(level["baseline"]["output_tokens_per_second"]))
    speedup = found["speedup"]
    shown = _DASH if speedup["estimate"] is None else f"{speedup['estimate']:.2f}×"
    if speedup["low"] is not None:
        shown += f" ({speedup['low']:.2f} to {speedup['high']:.2f})"
    rates = found["output_tokens_per_second"], found["baseline"]["output_tokens_per_second"]
    return (shown, str(found["pairs"]), *map(_number, rates))


def _number(row: Mapping[str, Any]) -> str:
    return _DASH if row["estimate"] is None else f"{row['estimate']:.0f}"
