"""What a search shows: live while it runs, and its table afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table

from trtspec.cli.live_view import LiveView
from trtspec.units import duration_text

if TYPE_CHECKING:
    from trtspec.tuning import TuneStatus

__all__ = ["TuneView", "print_tuning", "tune_line", "tune_table"]

_DASH = "–"


class TuneView(LiveView["TuneStatus"]):
    """A search's statuses; a new rung is news."""

    def table(self, status: TuneStatus) -> Group:
        """Each level's race."""
        return tune_table(status)

    def line(self, status: TuneStatus) -> str:
        """Rung, blocks, time, leaders."""
        return tune_line(status)

    def is_news(self, before: TuneStatus | None, status: TuneStatus) -> bool:
        """Whether a rung has begun."""
        return before is None or (before.phase, before.rung) != (status.phase, status.rung)


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
