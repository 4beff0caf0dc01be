"""A plan's speed-up on a terminal: a table of draft length by concurrency, latencies, a chart."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from trtspec.planning.forecast import Cell, Forecast
from trtspec.planning.speedup import Performance
from trtspec.reports.formats import number_text, percent_text
from trtspec.reports.plan_bars import Line, line_chart
from trtspec.reports.plan_text import flow, plain_table, say, thinned

__all__ = ["print_speed", "speed_title"]

_STYLES = ("cyan", "magenta", "yellow")
_LABEL, _CELL = 11, 8
_ROWS = 4
_GIVEN = {"spec": "given in the spec", "option": "given", "measured": "measured"}


def print_speed(console: Console, forecast: Forecast) -> None:
    """The table, what its marks mean, both arms' latencies, and a chart where there is an acceptance."""
    columns = thinned(forecast.grid.concurrencies, (min(console.width, 120) - _LABEL) // _CELL)
    console.print()
    say(console, f"[bold]{speed_title(forecast)}[/]")
    _print_grid(console, forecast, columns)
    flow(console, [Text(mark, "dim") for mark in _marks(forecast, columns)])
    if forecast.reason:
        say(console, f"[yellow]{escape(forecast.reason)}[/]")
    _print_latencies(console, forecast)
    for line in (*_limits(forecast), forecast.caveat):
        if line:
            say(console, f"[yellow]{escape(line)}[/]")
    if forecast.acceptance is not None and len(forecast.grid.concurrencies) > 1:
        _print_chart(console, forecast)


def speed_title(forecast: Forecast) -> str:
    """What the table shows, and at which acceptance."""
    acceptance = forecast.acceptance
    if acceptance is None:
        return "acceptance rate that breaks even: draft length by concurrency"
    where = _GIVEN[acceptance.origin]
    share = f"{percent_text(acceptance.rate)} of {acceptance.draft_length} drafted tokens accepted, {where}"
    return f"expected speed-up: draft length by concurrency ({share})"


def _print_grid(console: Console, forecast: Forecast, columns: Sequence[int]) -> None:
    head = "".join(f"{concurrency} ".rjust(_CELL) for concurrency in columns)
    console.print(Text("concurrency" + head, "dim"))
    best = {item.concurrency: item.draft_length for item in forecast.best}
    for length in forecast.grid.draft_lengths:
        row = Text(f"{'▸' if length == forecast.grid.chosen else ' '}{length}".rjust(_LABEL))
        for concurrency in columns:
            cell = forecast.cell(concurrency, length)
            text, style = _needed_text(cell) if forecast.acceptance is None else _speed_text(cell, best)
            row.append((f"{text} " if cell.fits else f"({text.rstrip()})").rjust(_CELL), style)
        console.print(row)


def _speed_text(cell: Cell, best: Mapping[int, int]) -> tuple[str, str]:
    value = cell.speedup or 0.0
    style = "red" if value < 0.95 else "yellow" if value < 1.05 else "bold green" if value >= 1.5 else "green"
    star = "*" if best.get(cell.concurrency) == cell.draft_length else ""
    return f"{star}{value:.2f}", style if cell.fits else f"dim {style}"


def _needed_text(cell: Cell) -> tuple[str, str]:
    if cell.break_even is None:
        return "–", "dim"
    if cell.break_even.rate is None:
        return "never", "red"
    value = cell.break_even.rate
    style = "green" if value < 0.3 else "yellow" if value < 0.6 else "red"
    return f"{value:.0%}", style if cell.fits else f"dim {style}"


def _marks(forecast: Forecast, columns: Sequence[int]) -> list[str]:
    grid, notes = forecast.grid, ["▸ the spec's draft length"]
    if forecast.best:
        notes.append("* best there")
    notes += _best_elsewhere(forecast, columns)
    if any(not grid.fits(concurrency) for concurrency in columns):
        notes.append(f"( ) more than the {grid.limit} sequences that fit at once")
    if len(columns) < len(grid.concurrencies):
        notes.append("more columns: --concurrency")
    if max(grid.draft_lengths) > grid.longest:
        notes.append(f"above {grid.longest}: set speculation.max_draft_length")
    return notes


def _best_elsewhere(forecast: Forecast, columns: Sequence[int]) -> list[str]:
    """The best draft lengths that have no row in the table."""
    shown = [item for item in forecast.best if item.concurrency in columns]
    hidden = [item for item in shown if item.draft_length not in forecast.grid.draft_lengths]
    best = ", ".join(f"{item.draft_length} at {item.concurrency} (×{item.speedup:.2f})" for item in hidden)
    return [f"best of those not shown: {best}"] if best else []


def _print_latencies(console: Console, forecast: Forecast) -> None:
    """Both arms at some concurrencies, with the spec's draft length."""
    columns: tuple[tuple[str, Callable[[Performance], float]], ...] = (
        ("first token, ms", lambda item: 1000 * item.time_to_first_token),
        ("ms a token", lambda item: 1000 * item.time_per_output_token),
        ("tokens/s a user", lambda item: item.tokens_per_second_per_user),
        ("tokens/s in all", lambda item: item.tokens_per_second),
    )
    table = plain_table()
    table.add_column("concurrency", justify="right", no_wrap=True)
    for label, _ in columns:
        table.add_column(label, justify="right", no_wrap=True)
    for concurrency in thinned(forecast.grid.concurrencies, _ROWS):
        arms = [forecast.model.baseline(concurrency), forecast.cell(concurrency, forecast.grid.chosen).performance]
        cells = (" → ".join(number_text(read(item)) for item in arms if item is not None) for _, read in columns)
        table.add_row(str(concurrency), *cells)
    console.print()
    say(console, table)
    if forecast.acceptance is not None:
        say(console, f"[dim]baseline → speculative with draft length {forecast.grid.chosen}[/]")


def _limits(forecast: Forecast) -> list[str]:
    """Where the frontend's process, and not a GPU, decides."""
    chosen = forecast.grid.chosen
    slow = [c for c in forecast.grid.concurrencies if chosen and forecast.model.round_time(c, chosen).wait > 0]
    if not slow:
        return []
    return [f"from concurrency {slow[0]} on the frontend's process is the slowest part (assumption call_cpu)"]


def _print_chart(console: Console, forecast: Forecast) -> None:
    grid = forecast.grid
    lengths = list(dict.fromkeys((grid.draft_lengths[-1], grid.draft_lengths[0], grid.chosen)))
    concurrencies = sorted(grid.concurrencies)
    lines, legend = [], Text("speed-up over concurrency", "bold")
    for length, style in zip(reversed(lengths), _STYLES, strict=False):
        points = [(math.log2(c), forecast.cell(c, length).speedup or 0.0) for c in concurrencies]
        lines.append(Line(points, style, str(length)))
        legend.append(f"  ─ {length} drafted", style)
    legend.append("  · break-even", "dim")
    console.print()
    say(console, legend)
    for row in line_chart(lines[::-1], concurrencies, width=min(console.width - 2, 76)):
        console.print(row)
