"""What `trtspec loadtest --dry-run` shows a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trtspec.units import duration_text

__all__ = ["print_preview"]

_SHOWN = 16


def print_preview(console: Console, plan: Mapping[str, Any]) -> None:
    """Arms, prompts, and a row a load level."""
    for arm, url in plan["arms"].items():
        console.print(f"{arm}: {escape(url) if url else 'its server is started and stopped'}")
    console.print(f"GPUs: {escape(plan['placement']['reason'])}")
    prompts = plan["prompts"]
    console.print(f"prompts: {prompts['count']} of {escape(str(prompts['source']))}")
    console.print(_table(plan))
    until = plan["until"]
    if until is not None:
        what = [f"{duration_text(until['duration'])} of load on each arm"] if until["duration"] else []
        what += [f"an interval of {until['width']:.1%}"] if until["width"] else []
        console.print(f"goes on, this many requests at a time, until {' or '.join(what)}")
    console.print(f"{plan['requests']} measured requests in each arm, {plan['processes']} load process(es)")
    for note in plan["notes"]:
        console.print(f"note: {escape(note)}")


def _table(plan: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("load", "requests", "blocks", "first in each block", "warm-up", "time"):
        table.add_column(name, justify="left" if name in {"load", "first in each block"} else "right")
    for level in plan["levels"]:
        order = level["order"]
        table.add_row(
            escape(level["load"]),
            str(level["requests"]),
            str(level["blocks"]),
            order if len(order) <= _SHOWN else f"{order[:_SHOWN]}…",
            "–" if level["warm_up"] is None else str(level["warm_up"]),
            "as answers take" if level["seconds"] is None else duration_text(level["seconds"]),
        )
    return table
