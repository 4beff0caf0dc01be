"""Active time and tokens of every unit of pairs in one arm: what throughput is compared by.

Requests of one block share the server and are no single units: their active time is that of the block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trtspec.loadtest.pairing import Pairs
from trtspec.loadtest.table import UNKNOWN, Table
from trtspec.loadtest.units import Units
from trtspec.spec.names import ARMS, BASELINE_ARM, SPECULATIVE, Arm

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column = NDArray[Any]

__all__ = ["throughput_costs", "unit_loads"]


def throughput_costs(pairs: Pairs, units: Units) -> Column:
    """[units, 4]: active ns and tokens of the baseline, then of the speculative arm; NaN without token counts."""
    import numpy as np

    return np.concatenate([unit_loads(pairs, units, arm) for arm in (BASELINE_ARM, SPECULATIVE)], axis=1)


def unit_loads(pairs: Pairs, units: Units, arm: Arm) -> Column:
    """[units, 2]: active ns and the tokens that arrived in them, NaN where they are not counted.

    As `trtspec.loadtest.throughput.measure_load` has it, for all units at once: requests outside the window that ran in
    a unit's block add their tokens, not their time.
    """
    import numpy as np

    table, rows, size = pairs.table, pairs.rows(arm), len(units)
    shifted = _Shifted(table, rows)
    starts, ends = shifted.union(rows, units.unit)
    unit_of_interval = shifted.unit(starts)
    active = np.bincount(unit_of_interval, weights=ends - starts, minlength=size)
    tokens = table.answer_tokens[rows].astype(float)
    tokens[tokens < 0] = np.nan
    total = np.bincount(units.unit, weights=tokens, minlength=size)
    others, unit = _others(pairs, units, arm)
    return np.stack([active, total + _inside(table, shifted, (others, unit), (starts, ends), size)], axis=1)


class _Shifted:
    """Times moved apart by unit, so that one ascending axis holds all of them."""

    def __init__(self, table: Table, rows: Column) -> None:
        self._table = table
        self._zero = int(table.start_ns[rows].min()) if len(rows) else 0
        end = int(table.active_end_ns[rows].max()) if len(rows) else 0
        self._span = end - self._zero + 1

    def time(self, ns: Column, unit: Column) -> Column:
        """On the common axis."""
        return ns - self._zero + unit * self._span

    def unit(self, time: Column) -> Column:
        """The unit that a time on the common axis belongs to."""
        return time // self._span

    def within(self, ns: Column) -> Column:
        """True for times that lie between the first start and the last end, which alone have a place on the axis."""
        return (ns >= self._zero) & (ns < self._zero + self._span)

    def union(self, rows: Column, unit: Column) -> tuple[Column, Column]:
        """Starts and ends of the units' active times."""
        import numpy as np

        starts = self.time(self._table.start_ns[rows], unit)
        order = np.argsort(starts, kind="stable")
        starts = starts[order]
        ends = np.maximum.accumulate(self.time(self._table.active_end_ns[rows], unit)[order])
        if not len(starts):
            return starts, ends
        new = np.r_[True, (starts[1:] > ends[:-1]) | (unit[order][1:] != unit[order][:-1])]
        return starts[new], ends[np.r_[np.flatnonzero(new)[1:] - 1, len(ends) - 1]]


def _others(pairs: Pairs, units: Units, arm: Arm) -> tuple[Column, Column]:
    """Requests of an arm that are in no pair but ran in a unit's block, and that unit."""
    import numpy as np

    table = pairs.table
    mine = np.flatnonzero(
        (table.arm == ARMS.index(arm)) & (table.excluded != UNKNOWN) & ~table.failed & (table.block >= 0)
    )
    blocks = int(table.block.max(initial=0)) + 1
    known, first = np.unique(pairs.load.astype(np.int64) * blocks + pairs.block, return_index=True)
    wanted = table.load[mine].astype(np.int64) * blocks + table.block[mine]
    place = np.minimum(np.searchsorted(known, wanted), max(0, len(known) - 1))
    found = known[place] == wanted if len(known) else np.zeros(len(mine), dtype=bool)
    return mine[found], units.unit[first[place[found]]]


def _inside(
    table: Table, shifted: _Shifted, others: tuple[Column, Column], active: tuple[Column, Column], size: int
) -> Column:
    """Tokens of chunks of other requests that arrived within the units' active times."""
    import numpy as np

    rows, unit = others
    starts, ends = active
    if not len(rows) or not len(starts):
        return np.zeros(size)
    sizes = table.chunk_offsets[rows + 1] - table.chunk_offsets[rows]
    within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    index = np.repeat(table.chunk_offsets[rows], sizes) + within
    ns = np.repeat(table.start_ns[rows], sizes) + table.chunk_ns[index]
    times = shifted.time(ns, np.repeat(unit, sizes))
    place = np.searchsorted(starts, times, side="right") - 1
    inside = shifted.within(ns) & (place >= 0) & (times <= ends[np.maximum(place, 0)])
    tokens = table.chunk_tokens[index][inside].astype(float)
    tokens[tokens < 0] = np.nan
    return np.bincount(np.repeat(unit, sizes)[inside], weights=tokens, minlength=size)
