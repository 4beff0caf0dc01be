"""What `trtspec build --dry-run` shows a person: commands to paste, sizes, and what to know beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trtspec.units import bytes_text

__all__ = ["show_preview"]


def show_preview(console: Console, plan: Mapping[str, Any]) -> None:
    """Print the steps of a dry run; for TensorRT engines as shell commands, with sizes and notes."""
    if "toolchain" not in plan:
        for step in plan["steps"]:
            state = "[dim]cached[/]" if step["cached"] else "would be built"
            console.print(f"{step['role']:9}{state}  {escape(step['outputs'][0])}")
        return
    _toolchain(console, plan["toolchain"])
    for number, step in enumerate(plan["steps"], 1):
        state = " (cached)" if step["cached"] else ""
        console.print(f"\n[bold]# {number}. {step['stage']} {' + '.join(step['roles'])}[/][dim]{state}[/]")
        console.print(escape(step["shell"]), style="dim" if step["cached"] else None)
    _sizes(console, plan["sizes"])
    _space(console, plan["space"])
    for note in plan["notes"]:
        console.print(f"[dim]# {escape(note)}[/]")


def _toolchain(console: Console, toolchain: Mapping[str, Any]) -> None:
    where = f"in {toolchain['image']}" if toolchain["image"] else f"version from: {toolchain['origin']}"
    sm = f"SM {toolchain['sm']} ({toolchain['gpu']})" if toolchain["sm"] is not None else "GPU not known"
    console.print(f"# TensorRT-LLM {toolchain['version']}, {escape(where)}; {escape(sm)}")


def _sizes(console: Console, sizes: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    if not sizes:
        return
    # as comments: the whole output is a shell script; why a size becomes another one is among the notes
    table = Table("# size", *sizes, box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for name in next(iter(sizes.values())):
        table.add_row(f"# {name}", *(_size(sizes[role][name]) for role in sizes))
    console.print()
    console.print(table)


def _size(value: Mapping[str, Any]) -> str:
    """The number asked for, and what config.json will record where that differs."""
    return str(value["asked"]) if value["asked"] == value["written"] else f"{value['asked']} → {value['written']}"


def _space(console: Console, space: Mapping[str, Any]) -> None:
    if space["needed_bytes"]:
        parts = ", ".join(f"{item['label']} {bytes_text(item['bytes'])}" for item in space["folders"])
        console.print(f"\n# disk: about {bytes_text(space['needed_bytes'])} ({escape(parts)})")
