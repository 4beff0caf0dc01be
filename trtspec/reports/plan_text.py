"""How a plan's parts are put on a terminal: paragraphs and tables that keep to its width."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["flow", "plain_table", "say", "thinned"]


def say(console: Console, what: str | Text | Table) -> None:
    """Print a paragraph or a table, wrapped at the console's width."""
    console.print(what, soft_wrap=False)


def flow(console: Console, pieces: Sequence[Text]) -> None:
    """Print pieces beside each other, none of them broken over two lines unless it is wider than a line."""
    line = Text()
    for piece in pieces:
        if line and len(line) + 2 + len(piece) > console.width:
            say(console, line)
            line = Text()
        line = Text.assemble(line, "  ", piece) if line else piece
    say(console, line)


def plain_table(title: str = "", gap: int = 2) -> Table:
    """A table without borders, its title on the left, `gap` blanks between columns."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, gap, 0, 0), title=title or None)
    table.title_justify = "left"
    table.title_style = "bold"
    return table


def thinned(values: Sequence[int], room: int) -> list[int]:
    """At most `room` of the values, evenly spread, the first and the last among them."""
    if len(values) <= room:
        return list(values)
    if room < 2:
        return [values[0]]
    step = (len(values) - 1) / (room - 1)
    return list(dict.fromkeys(values[round(index * step)] for index in range(room)))
