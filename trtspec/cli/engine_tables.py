"""What lies under engines/, as tables and as JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trtspec.units import bytes_text

if TYPE_CHECKING:
    from trtspec.building.inventory import Entry
    from trtspec.building.pruning import PrunePlan
    from trtspec.building.usage import Usage

__all__ = ["describe", "entry_json", "print_engines", "print_plan"]

_KEY = 12  # characters of a key that a table shows; fewer name it


def entry_json(entry: Entry, usage: Usage) -> dict[str, Any]:
    """An entry as `engines list --output json` shows it."""
    return {
        "kind": entry.kind,
        "state": entry.state,
        "name": entry.name,
        "role": entry.role,
        "key": entry.key,
        "path": str(entry.path),
        "runtime": entry.runtime,
        "version": entry.version,
        "sm": entry.sm,
        "size_bytes": entry.size,
        "age_seconds": round(max(0.0, time.time() - entry.changed), 1),
        "used_by": list(usage.of(entry)),
        "doubt": usage.doubt(entry),
    }


_STYLES = {"finished": "green", "building": "yellow", "damaged": "red", "left over": "dim"}


def print_engines(console: Console, entries: Sequence[Entry], usage: Usage) -> None:
    """A table for each name below engines/."""
    for name, group in groupby(entries, key=lambda entry: entry.name):
        console.print(f"[bold]{escape(name)}[/]")
        console.print(_engines_table(tuple(group), usage))


def _engines_table(entries: Sequence[Entry], usage: Usage) -> Table:
    """One row an entry; a question mark where its users cannot be told."""
    table = _table("what", "key", "state", "made with", "size", "age", "used by")
    for entry in entries:
        users, doubt = ", ".join(usage.of(entry)), usage.doubt(entry)
        shown = escape(users) if users else "[dim]?[/]" if doubt and entry.kind in {"engine", "checkpoint"} else ""
        state = f"[{_STYLES[entry.state]}]{entry.state}[/]"
        age = _age_text(time.time() - entry.changed)
        size = bytes_text(entry.size)
        table.add_row(describe(entry), entry.key[:_KEY], state, _made_with(entry), size, age, shown)
    return table


def _table(*columns: str) -> Table:
    """A table that keeps keys, versions and sizes whole on a narrow terminal."""
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(name, no_wrap=name not in _MAY_WRAP, overflow="fold")
    return table


_MAY_WRAP = ("what", "used by", "why")


def describe(entry: Entry) -> str:
    """What an entry is, in a word or two."""
    if entry.kind == "engine":
        return entry.place
    if entry.kind == "checkpoint":
        return "checkpoint"
    forms = {"partial": "unfinished {}", "work": "{} work folder", "log": "{} log"}
    return forms[entry.kind].format(entry.role or "checkpoint")


def _made_with(entry: Entry) -> str:
    if entry.runtime == "torch":
        return "torch"
    parts = [entry.version or "", f"SM {entry.sm}" if entry.sm is not None else ""]
    return escape(", ".join(part for part in parts if part))


def _age_text(seconds: float) -> str:
    """Rounded down to the largest unit: `5 min`, `3 h`, `12 d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return "now"


def print_plan(console: Console, plan: PrunePlan) -> None:
    """What would go and why, and what stays although nothing is known to use it."""
    if not plan.removals:
        console.print("nothing to remove")
    else:
        table = _table("name", "what", "key", "made with", "size", "why")
        for removal in plan.removals:
            entry = removal.entry
            size = bytes_text(entry.size)
            table.add_row(
                escape(entry.name), describe(entry), entry.key[:_KEY], _made_with(entry), size, removal.reason
            )
        console.print(table)
    for kept in plan.kept:
        console.print(f"[dim]kept: {describe(kept.entry)} {kept.entry.key[:_KEY]}: {escape(kept.reason)}[/]")
