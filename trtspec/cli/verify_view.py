"""How a verification looks on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

__all__ = ["print_verification"]

_COLOURS = {"IDENTICAL": "green", "NEAR-TIES": "green", "SAME": "green", "LOGIC FAULT": "red", "DIFFERENT": "red"}
_MOST_ROWS = 12
_TEXT = 24
_DASH = "–"


def print_verification(console: Console, data: Mapping[str, Any], path: Path) -> None:
    """The verdict, the table of what was compared, and where the rest lies."""
    code = data["verdict_code"]
    console.print(f"[bold {_COLOURS.get(code, 'yellow')}]{code}[/]  {escape(data['verdict'])}\n")
    if data["equality"] is not None:
        _divergences(console, data["equality"])
    if data["distribution"] is not None:
        _distribution(console, data["distribution"])
    if data["tasks"] is not None:
        _tasks(console, data["tasks"])
    console.print(f"result: {escape(str(path / 'verification.json'))}")


def _table(*columns: str, right: Sequence[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def _more(console: Console, count: int) -> None:
    if count > _MOST_ROWS:
        console.print(f"[dim]and {count - _MOST_ROWS} more in verification.json[/]")
    console.print()


def _divergences(console: Console, section: Mapping[str, Any]) -> None:
    places = section["divergences"]
    if not places:
        return
    table = _table("prompt", "load", "token", "baseline", "speculative", "gap", "verdict", right=("token", "gap"))
    for place in places[:_MOST_ROWS]:
        gap = place.get("logit_gap")
        why = f" ({place['reason']})" if place.get("reason") else ""
        table.add_row(
            escape(place["prompt_id"]),
            escape(place["load"]),
            _DASH if place["token_index"] is None else str(place["token_index"]),
            _quoted(place["baseline_text"]),
            _quoted(place["speculative_text"]),
            _DASH if gap is None else f"{gap:.3g}",
            escape(place["verdict"] + why),
        )
    console.print(table)
    _more(console, len(places))


def _quoted(text: str) -> str:
    return escape(repr(text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…"))


def _distribution(console: Console, section: Mapping[str, Any]) -> None:
    columns = ("samples of", "cells", "distance", "by chance", "95 % below", "would be seen", "corrected p")
    table = _table(*columns, right=columns[1:])
    rows = sorted(section["prompts"], key=lambda prompt: prompt["p_adjusted"])
    for row in rows[:_MOST_ROWS]:
        table.add_row(escape(row["prompt_id"]), str(row["cells"]), *_test(row))
    table.add_row("[bold]all prompts[/]", "", *_test(section["pooled"]))
    console.print(table)
    _more(console, len(rows))


def _test(row: Mapping[str, Any]) -> tuple[str, ...]:
    noise = row["noise"] or {"mean": None, "p95": None}
    cells = (row["total_variation"], noise["mean"], noise["p95"], row["detectable"])
    shown = [_DASH if value is None else f"{value:.3f}" for value in cells]
    mark = "[red]" if row["rejected"] else ""
    return (*shown, f"{mark}{row['p_adjusted']:.2g}{'[/]' if mark else ''}")


def _tasks(console: Console, section: Mapping[str, Any]) -> None:
    table = _table("arm", "right", "of", "right here only", right=("right", "of", "right here only"))
    for arm in ("baseline", "speculative"):
        table.add_row(arm, str(section["right"][arm]), str(section["tasks"]), str(section[f"only_{arm}"]))
    console.print(table)
    console.print(f"[dim]McNemar's exact test: p = {section['p']:.3g}[/]\n")
