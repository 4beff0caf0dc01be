"""When a run may stop by itself without flattering its own result.

Looking again and again and stopping at the first significant difference would call a difference far too often. Here the
rule looks at the *width* of the interval only, never at where it lies; width and place of an interval are nearly
independent, so stopping by the one does not pull the other. What is left, that a run stops a little early when its
scatter looks small by chance, is kept harmless: there is a minimum of units, only a few fixed sizes are looked at, each
half as large again as the one before, and two looks in a row must agree. `benchmarks/simulated_ab.py` measures how
often the intervals of runs that stopped themselves hold the truth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from trtspec.loadtest.levels import LoadLevel
from trtspec.loadtest.pairing import Pairs, pair_rows
from trtspec.loadtest.records import Record
from trtspec.loadtest.speedups import headline
from trtspec.loadtest.table import Table, table_of
from trtspec.loadtest.units import independent, levels_of

__all__ = ["MINIMUM_BLOCKS", "MINIMUM_PAIRS", "earliest_stop", "looks", "width_reached"]

MINIMUM_PAIRS = 60
MINIMUM_BLOCKS = 12
_GROWTH = 1.5


def width_reached(records: Iterable[Record] | Table, relative_width: float) -> bool:
    """True when the headline's interval is narrow enough at every load level that has pairs: (high - low) / estimate.

    Looks at the level's first 60, 90, 135, … prompts (at concurrency 1) or 12, 18, 27, … blocks (else): the largest of
    these sizes that is there must be narrow enough, and the one before it nearly (a third fewer make √1.5 times the
    width). False before the second of these sizes. Call it when both arms have answered a block, with all records
    so far.
    """
    pairs = pair_rows(records if isinstance(records, Table) else table_of(records))
    levels = list(levels_of(pairs))
    return bool(levels) and all(_narrow(level, pairs.select(chosen), relative_width) for level, chosen in levels)


def _narrow(level: LoadLevel, pairs: Pairs, relative_width: float) -> bool:
    unit = independent(level, pairs)
    sizes = looks(int(unit.max()) + 1, _minimum(level.alone))
    if len(sizes) < 2:
        return False
    before, now = (headline(pairs.select(unit < size)).relative_width for size in sizes[-2:])
    if before is None or now is None:
        return False
    return now <= relative_width and before <= relative_width * math.sqrt(_GROWTH)


def _minimum(alone: bool) -> int:
    return MINIMUM_PAIRS if alone else MINIMUM_BLOCKS


def earliest_stop(*, alone: bool) -> int:
    """The fewest prompts (`alone`: one request at a time) or blocks at which a run may stop: two looks must agree."""
    return int(_minimum(alone) * _GROWTH)


def looks(count: int, minimum: int) -> list[int]:
    """The sizes that are looked at, up to `count` units: `minimum`, then always half as many again."""
    sizes, size = [], minimum
    while size <= count:
        sizes.append(size)
        size = int(size * _GROWTH)
    return sizes
