"""Findings on the console: grouped by level, with severity, whose they are, and the way out; notes on one line each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from trtspec.rules import Finding
from trtspec.rules.registry import LEVELS, Level

__all__ = ["STYLES", "print_findings"]

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
    style = STYLES[finding.level]
    label = f"[{style}]{finding.severity}[/] [dim]{finding.role} · {finding.id}[/]"
    if finding.level == "note":
        way_out = f" [green]→[/] {escape(finding.fix)}" if finding.fix else ""
        console.print(f"  {label} {escape(finding.message)}{way_out}")
        return
    console.print(f"  {label}\n    {escape(finding.message)}")
    if finding.fix:
        console.print(f"    [green]fix:[/] {escape(finding.fix)}")
