"""The report's key numbers for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trtspec.reports.data import ReportData
from trtspec.reports.drafters import drafter_lines, told_by_drafter
from trtspec.reports.formats import acceptance_text, percent_text, plain, ratio_text
from trtspec.reports.level_cells import TIMES, median_cells, rate_cell
from trtspec.reports.money_charts import capacity_text
from trtspec.reports.names import metric_name
from trtspec.reports.reading import Part
from trtspec.reports.service_charts import slo_text
from trtspec.reports.view import break_even_text, equality_text
from trtspec.units import bounds_text

__all__ = ["print_report"]

_COLOURS = {"baseline": "yellow", "speculative": "cyan"}
_BAR = 24


def print_report(console: Console, data: ReportData) -> None:
    """Verdict, both arms at each load, service levels, acceptance, equality, warnings."""
    console.print(f"[bold]{escape(str(data.comparison['verdict']))}[/]\n")
    _print_arms(console, data)
    if data.levels:
        console.print(_fitting(console, data))
    console.print()
    _print_service(console, data)
    _print_acceptance(console, data)
    console.print(f"[bold]answers[/]     {escape(equality_text(data.comparison))}")
    console.print(f"[bold]break-even[/]  {escape(break_even_text(data))}")
    for warning in data.comparison["warnings"]:
        console.print(f"[yellow]note[/]        {escape(str(warning))}")


def _print_arms(console: Console, data: ReportData) -> None:
    """What the arms are called, where two servers were given."""
    options = (data.provenance or {}).get("options")
    labels = options.get("labels") if isinstance(options, Mapping) else None
    if isinstance(labels, Mapping) and labels:
        for arm in data.arms:
            console.print(f"[{_COLOURS[arm]}]{arm}[/]: {escape(str(labels.get(arm) or '–'))}")
        console.print()


def _fitting(console: Console, data: ReportData) -> Table:
    """The table of the levels, closer where the terminal is narrow."""
    table = _levels(data)
    if console.measure(table).minimum > console.width:
        table.padding = (0, 1, 0, 0)
    return table


def _levels(data: ReportData) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    failures = any(level.part.counts(arm).get("failed") for level in data.levels for arm in data.arms)
    table.add_column("level", no_wrap=True)
    table.add_column("arm", no_wrap=True)
    counts = ("ok", "failed") if failures else ("ok",)
    for column in (*counts, *(label for _, label in TIMES), "tokens/s", "speed-up"):
        table.add_column(column, justify="right", no_wrap=True)
    for level in data.levels:
        part = level.part
        for index, arm in enumerate(data.arms):
            head = escape(level.short if level.closed else level.label) if index == 0 else ""
            speedup = _speedup(part, data.headline) if arm == "speculative" else ""
            name = f"[{_COLOURS[arm]}]{arm}[/]"
            counted = _counts(part, arm)[: len(counts)]
            table.add_row(head, name, *counted, *median_cells(part, arm), rate_cell(part, arm), speedup)
    closed = "level: concurrent requests · " if any(level.closed for level in data.levels) else ""
    table.caption = f"{closed}medians in ms · speed-up in {metric_name(data.headline).lower()}"
    table.caption_justify = "left"
    return table


def _print_service(console: Console, data: ReportData) -> None:
    """Requests within the service levels, where any were given."""
    for level in data.levels:
        rows = {arm: level.part.arms.get(arm, {}).get("goodput") or {} for arm in data.arms}
        shares = {arm: (row.get("met") or {}).get("share") for arm, row in rows.items()}
        told = [f"{arm} {percent_text(share)}" for arm, share in shares.items() if share is not None]
        slo = next((text for row in rows.values() if (text := slo_text(row.get("slo")))), "")
        if told and slo:
            console.print(f"[bold]goodput[/]     {escape(level.label)}: {', '.join(told)} within {slo}")
    for text in capacity_text(data):
        console.print(f"[bold]capacity[/]    {escape(text)}")


def _counts(part: Part, arm: str) -> list[str]:
    counts = part.counts(arm)
    failed = counts.get("failed") or 0
    return [str(counts.get("ok") or 0), f"[red]{failed}[/]" if failed else "0"] if counts else ["–", "–"]


def _speedup(part: Part, name: str) -> str:
    interval = part.speedup(name)
    if interval is None:
        return "–"
    if interval.low is None or interval.high is None:
        return ratio_text(interval.estimate)
    return f"[bold]{ratio_text(interval.estimate)}[/] ({bounds_text(interval.low, interval.high)})"


def _print_acceptance(console: Console, data: ReportData) -> None:
    acceptance = data.acceptance
    rate, length = acceptance["acceptance_rate"], acceptance["mean_acceptance_length"]
    if length is None and rate is None:
        console.print(f"[bold]acceptance[/]  unknown: {escape(plain(acceptance.get('reason') or 'no counters'))}")
        return
    console.print(f"[bold]acceptance[/]  {acceptance_text(rate, length)}")
    for line in drafter_lines(told_by_drafter(acceptance)):
        console.print(f"[bold]drafted by[/]  {escape(line)}")
    categories: Mapping[str, Mapping[str, Any]] = acceptance.get("by_category") or {}
    known = {name: row["acceptance_rate"] for name, row in categories.items() if row.get("acceptance_rate") is not None}
    width = max(map(len, known), default=0)
    for name, value in sorted(known.items(), key=lambda item: -item[1]):
        part = data.categories().get(name)
        speedup = _speedup(part, data.headline) if part is not None else ""
        filled = round(_BAR * value)
        bar = f"[cyan]{'━' * filled}[/]{' ' * (_BAR - filled)}"
        console.print(f"  {escape(name.ljust(width))}  {bar} {percent_text(value):>6}  {speedup}")
    if known:
        levels = " over all levels" if len(data.levels) > 1 else ""
        console.print(f"[dim]category: share of drafted tokens accepted · speed-up{levels}[/]")
