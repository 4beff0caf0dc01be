"""Pictures of a plan in characters: a stacked bar of a GPU's memory, and lines over concurrency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from trtspec.planning.items import GpuMemory, Item

__all__ = ["SEGMENTS", "Line", "Segment", "line_chart", "memory_bar", "segment_bytes"]


@dataclass(frozen=True)
class Segment:
    """A part of a memory bar: its name, glyph (told apart without colour) and colour."""

    name: str
    glyph: str
    style: str


SEGMENTS = (
    Segment("target weights", "█", "cyan"),
    Segment("draft weights", "▓", "magenta"),
    Segment("keys and values", "▒", "green"),
    Segment("activations, buffers, runtime", "░", "yellow"),
)
_FREE = Segment("free", "·", "dim")


def segment_bytes(gpu: GpuMemory) -> tuple[int, ...]:
    """Bytes of each of `SEGMENTS` on a GPU."""
    sizes = dict.fromkeys(range(len(SEGMENTS)), 0)
    for item in gpu.items:
        sizes[_segment_of(item)] += item.bytes
    return tuple(sizes.values())


def _segment_of(item: Item) -> int:
    if item.kind == "weights":
        return 1 if item.role == "draft" else 0
    return 2 if item.kind == "kv_cache" else 3


def memory_bar(gpu: GpuMemory, width: int) -> Text:
    """`width` characters: what lies on the GPU, then what is free; where it does not fit, a | at the GPU's end."""
    sizes = segment_bytes(gpu)
    total = gpu.total or gpu.used
    whole = max(total, gpu.used, 1)
    counts = _shares([*sizes, max(0, total - gpu.used)], whole, width)
    bar = Text()
    for segment, count in zip((*SEGMENTS, _FREE), counts, strict=True):
        bar.append(segment.glyph * count, segment.style)
    if gpu.used <= total:
        return bar
    end = min(width - 1, round(width * total / whole))
    return Text.assemble(bar[:end], ("|", "bold red"), bar[end + 1 :])


def _shares(sizes: Sequence[int], whole: int, width: int) -> list[int]:
    """Cells of each size, the largest remainders rounded up so that they fill `width`."""
    exact = [size * width / whole for size in sizes]
    cells = [math.floor(value) for value in exact]
    order = sorted(range(len(sizes)), key=lambda index: cells[index] - exact[index])
    for index in order[: max(0, width - sum(cells))]:
        cells[index] += 1
    return cells


@dataclass(frozen=True)
class Line:
    """A series of (x, y) with its colour, and what stands at its right end, where colours are not shown."""

    points: Sequence[tuple[float, float]]
    style: str
    label: str = ""


# a braille character holds 2 × 4 dots
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_BLANK = 0x2800


def line_chart(lines: Sequence[Line], ticks: Sequence[int], *, width: int, height: int = 8) -> list[Text]:
    """Lines over x (as given in the points), a rule at y = 1, labels on the left and `ticks` below.

    The points' x are logarithms to base 2 of the ticks. The y axis spans the values and 1.
    """
    values = [y for line in lines for _, y in line.points]
    low, high = min(1.0, *values), max(1.0, *values)
    margin = max(0.05, (high - low) * 0.05)
    low, high = max(0.0, low - margin), high + margin
    room = sum(len(line.label) + 1 for line in lines if line.label)
    canvas = _Canvas(width - 6 - room, height, low, high, _span(lines))
    canvas.rule(1.0)
    for line in lines:
        canvas.draw(line)
    labels = _labels(low, high, height)
    rows = [
        Text.assemble((f"{labels.get(row, ''):>4} ", "dim"), canvas.row(row), *_ends(lines, canvas, row))
        for row in range(height)
    ]
    return [*rows, canvas.tick_row(ticks)]


def _ends(lines: Sequence[Line], canvas: _Canvas, row: int) -> list[tuple[str, str]]:
    """The labels of the lines that end in a row, the highest first."""
    here = [line for line in lines if line.label and canvas.row_of(line.points[-1][1]) == row]
    return [(f" {line.label}", line.style) for line in sorted(here, key=lambda line: -line.points[-1][1])]


def _span(lines: Sequence[Line]) -> tuple[float, float]:
    xs = [x for line in lines for x, _ in line.points]
    return min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1


def _labels(low: float, high: float, height: int) -> dict[int, str]:
    """Row → label: top and bottom, and 1 where it has a row of its own."""
    one = round((high - 1) / (high - low) * (height - 1))
    return {0: f"{high:.1f}", height - 1: f"{low:.1f}", one: "1.0"}


class _Canvas:
    """A grid of braille cells over a range of x and y."""

    def __init__(self, width: int, height: int, low: float, high: float, span: tuple[float, float]) -> None:
        self._width, self._height = width, height
        self._low, self._high = low, high
        self._left, self._right = span
        self._masks = [[0] * width for _ in range(height)]
        self._styles = [["dim"] * width for _ in range(height)]

    def rule(self, y: float) -> None:
        for column in range(0, self._width * 2, 4):
            self._set(column, self._y(y), "dim")

    def draw(self, line: Line) -> None:
        for (x0, y0), (x1, y1) in zip(line.points, line.points[1:], strict=False):
            start, stop = self._x(x0), self._x(x1)
            for column in range(start, stop + 1):
                share = (column - start) / max(1, stop - start)
                self._set(column, self._y(y0 + share * (y1 - y0)), line.style)
        if len(line.points) == 1:
            self._set(self._x(line.points[0][0]), self._y(line.points[0][1]), line.style)

    def row_of(self, y: float) -> int:
        """The row that holds a value."""
        return self._y(y) // 4

    def row(self, number: int) -> Text:
        text = Text()
        for mask, style in zip(self._masks[number], self._styles[number], strict=True):
            text.append(chr(_BLANK + mask) if mask else " ", style)
        return text

    def tick_row(self, ticks: Sequence[int]) -> Text:
        """The tick labels, those left out that would run into the one before."""
        text = " " * 5
        for tick in ticks:
            place = 5 + self._x(math.log2(tick)) // 2
            if place >= len(text) + (1 if text.strip() else 0):
                text = text.ljust(place) + str(tick)
        return Text(text, "dim")

    def _x(self, x: float) -> int:
        share = (x - self._left) / (self._right - self._left)
        return min(2 * self._width - 1, max(0, round(share * (2 * self._width - 1))))

    def _y(self, y: float) -> int:
        share = (self._high - y) / (self._high - self._low)
        return min(4 * self._height - 1, max(0, round(share * (4 * self._height - 1))))

    def _set(self, x: int, y: int, style: str) -> None:
        self._masks[y // 4][x // 2] |= _DOTS[y % 4][x % 2]
        self._styles[y // 4][x // 2] = style
