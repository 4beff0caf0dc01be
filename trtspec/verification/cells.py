"""Samples of two arms as counts in cells: the first symbols of each answer, rare ones pooled.

Which cells there are follows from both arms' samples together, never from how they are divided between the arms. If
both come from one distribution, every division is equally likely given the cells, so choosing them this way keeps a
test of the division honest.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

__all__ = ["LEAST", "Cell", "count_cells"]

LEAST = 10
"""samples of both arms together that a cell holds at least: 5 expected in each (Cochran's rule for chi-square)"""

_MOST_CELLS = 20
Sequences = Sequence[Sequence[Hashable]]


@dataclass(frozen=True)
class Cell:
    """Answers that begin with `prefix`, and those counted in each arm; `pooled`: what is rare, together."""

    prefix: tuple[Hashable, ...]
    baseline: int
    speculative: int
    pooled: bool = False

    @property
    def total(self) -> int:
        """In both arms."""
        return self.baseline + self.speculative


def count_cells(baseline: Sequences, speculative: Sequences, *, least: int | None = None) -> list[Cell]:
    """The cells of two lists of symbol sequences, the largest first; each sample is in one of them.

    A cell is split by its next symbol as long as at least two parts hold `least` samples, the rare ones together being
    one part. `least` is by default a twentieth of all samples: more cells would see less. What is left at the top is
    merged into the smallest cell when it is too small itself.
    """
    samples = [(tuple(one), 0) for one in baseline] + [(tuple(one), 1) for one in speculative]
    least = max(LEAST, len(samples) // _MOST_CELLS) if least is None else least
    kept, rare = _split(samples, 0, least)
    cells = sorted((_counted(*part) for part in kept), key=lambda cell: (-cell.total, repr(cell.prefix)))
    if not rare:
        return cells
    rest = _counted((), rare, True)
    if not cells:
        return [rest]
    *larger, smallest = cells
    both = (smallest.baseline + rest.baseline, smallest.speculative + rest.speculative)
    return [*larger, Cell(smallest.prefix, *both, pooled=True)]


_Sample = tuple[tuple[Hashable, ...], int]
_Part = tuple[tuple[Hashable, ...], list[_Sample], bool]


def _split(samples: list[_Sample], depth: int, least: int) -> tuple[list[_Part], list[_Sample]]:
    """Parts that hold `least` samples (prefix, samples, pooled), and the samples in none of them."""
    groups: dict[Hashable, list[_Sample]] = {}
    for sample in samples:
        # an answer that has ended is a part of its own
        symbol: Hashable = ("symbol", sample[0][depth]) if depth < len(sample[0]) else ("end",)
        groups.setdefault(symbol, []).append(sample)
    kept: list[_Part] = []
    rare: list[_Sample] = []
    for symbol, group in groups.items():
        if len(group) < least:
            rare += group
        elif symbol == ("end",):
            kept.append((group[0][0], group, False))
        else:
            parts, rest = _split(group, depth + 1, least)
            kept += parts or [(group[0][0][: depth + 1], group, False)]
            rare += rest if parts else []
    if kept and len(rare) >= least:
        kept.append((rare[0][0][:depth], rare, True))
        rare = []
    return kept, rare


def _counted(prefix: tuple[Hashable, ...], samples: list[_Sample], pooled: bool) -> Cell:
    second = sum(arm for _, arm in samples)
    return Cell(prefix, len(samples) - second, second, pooled)
