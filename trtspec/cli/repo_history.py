"""`trtspec repo --history` and `--rollback`: the generations of an arm's repository."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trtspec.cli.output import Sink
from trtspec.errors import ArtefactMissing
from trtspec.repository.generations import Generation, current_generation, generation_folder, history, rollback
from trtspec.spec import Arm, SpecFile

__all__ = ["roll_back", "show_history"]

SCHEMA = 1
_REASONS = {"repo": "trtspec repo", "found": "found there: made by hand, or before it was kept"}


def show_history(sink: Sink, spec_file: SpecFile, arms: Sequence[Arm]) -> None:
    """Print the generations of each arm, oldest first, and which one is there now."""
    kept = {arm: history(spec_file.repository(arm)) for arm in arms}
    now = {arm: current_generation(spec_file.repository(arm)) for arm in arms}
    data = {
        "schema": SCHEMA,
        "arms": {
            arm: {
                "current": _number(now[arm]),
                "folder": str(generation_folder(spec_file.repository(arm))),
                "generations": [_record(item) for item in items],
            }
            for arm, items in kept.items()
        },
    }

    def human(console: Console) -> None:
        for arm, items in kept.items():
            console.print(f"[bold]{arm}[/]")
            if items:
                console.print(_table(items, now[arm]))
            else:
                console.print("  nothing is kept yet; trtspec repo keeps what it writes")
            if items and now[arm] is None:
                console.print("  [yellow]what is there now is none of these: it was changed by hand[/]")

    sink.result(data, human, "\n".join(f"{arm} {item.number}" for arm, items in kept.items() for item in items))


def _record(item: Generation) -> dict[str, Any]:
    return asdict(item)


def _number(item: Generation | None) -> int | None:
    return None if item is None else item.number


def _table(items: Sequence[Generation], now: Generation | None) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("", "number", "made (UTC)", "files", "by"):
        table.add_column(name, no_wrap=name != "by", min_width=1)
    for item in items:
        mark = "→" if item == now else ""
        made = item.made.replace("T", " ").removesuffix("+00:00")
        table.add_row(mark, str(item.number), made, str(item.files), escape(_REASONS.get(item.reason, item.reason)))
    return table


def roll_back(sink: Sink, spec_file: SpecFile, arms: Sequence[Arm], number: int | None) -> None:
    """Bring each arm back to its previous generation, or to a numbered one; ArtefactMissing when none has an earlier.

    An arm that has none, beside one that has, stays as it is.
    """
    tried = {arm: _tried(spec_file, arm, number) for arm in arms}
    done = {arm: result for arm, result in tried.items() if not isinstance(result, ArtefactMissing)}
    failed = [result for result in tried.values() if isinstance(result, ArtefactMissing)]
    if not done:
        raise failed[0]
    for problem in failed:
        sink.note(f"[yellow]note:[/] {escape(str(problem))}: left as it is")
    data = {
        "schema": SCHEMA,
        "arms": {arm: {"generation": now.number, "before": _number(before)} for arm, (now, before) in done.items()},
    }

    def human(console: Console) -> None:
        for arm, (now, before) in done.items():
            was = f", was {before.number}" if before else ""
            console.print(f"{arm:<12} generation {now.number} ({now.files} files){was}")
        console.print("[dim]a running server keeps what it has loaded: start it again, or load the models again[/]")

    sink.result(data, human, "\n".join(str(spec_file.repository(arm)) for arm in done))


def _tried(spec_file: SpecFile, arm: Arm, number: int | None) -> tuple[Generation, Generation | None] | ArtefactMissing:
    try:
        return rollback(spec_file.repository(arm), number)
    except ArtefactMissing as error:
        return error
