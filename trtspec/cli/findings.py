"""Findings on the console: grouped by level, with severity, whose they are, and the way out; notes in one paragraph.

A note says no severity: what it would lead to if it were more than a note would only frighten.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from trtspec.rules import Finding
from trtspec.rules.registry import LEVELS, Level

__all__ = ["STYLES", "print_findings", "say"]

STYLES: dict[Level, str] = {"error": "bold red", "warning": "bold yellow", "note": "bold blue"}


def print_findings(console: Console, findings: Sequence[Finding]) -> None:
    """Print the findings, errors first; nothing when there are none."""
    for level in LEVELS:
        found = [finding for finding in findings if finding.level == level]
        if found:
            plural = "" if len(found) == 1 else "s"
            console.print(f"\n[{STYLES[level]}]{len(found)} {level}{plural}[/]")
        for finding in found:
            _print_one(console, finding)


def _print_one(console: Console, finding: Finding) -> None:
    whose = f"[dim]{finding.role} · {finding.id}[/]"
    if finding.level == "note":
        way_out = f" [green]→[/] {escape(finding.fix)}" if finding.fix else ""
        say(console, 2, f"{whose}: {escape(finding.message)}{way_out}")
        return
    say(console, 2, f"[{STYLES[finding.level]}]{finding.severity}[/] {whose}")
    say(console, 4, escape(finding.message))
    if finding.fix:
        say(console, 4, f"[green]fix:[/] {escape(finding.fix)}")


def say(console: Console, indent: int, markup: str) -> None:
    """Print an indented paragraph: wrapped at words on a terminal, one line elsewhere, which `grep` finds."""
    if console.is_terminal:
        console.print(Padding(Text.from_markup(markup, emoji=False), (0, 0, 0, indent)), soft_wrap=False)
    else:
        console.print(" " * indent + markup)
