"""Which pairs vary independently: prompts at concurrency 1, blocks of requests that ran together otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trtspec.loadtest.intervals import Strata, UnitWord, batches
from trtspec.loadtest.levels import LoadLevel, parse_level
from trtspec.loadtest.likeness import clusters, likeness
from trtspec.loadtest.pairing import Pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Units", "independent", "levels_of", "units_of"]

# where records name no blocks, neighbours are merged: some for each connection, but not into fewer units than this
_REQUESTS_PER_CONNECTION = 4
_FEWEST = 10


@dataclass(frozen=True)
class Units:
    """`unit` is the unit of every pair, `strata` the levels of the units; `word` says what a unit is."""

    unit: NDArray[Any]
    strata: Strata
    word: UnitWord

    def __len__(self) -> int:
        return len(self.strata.of)

    def sums(self, columns: NDArray[Any]) -> tuple[NDArray[Any], Strata]:
        """Column sums of every unit and the units' levels; rows with NaN and units without any row are left out."""
        import numpy as np

        given = ~np.isnan(columns).any(axis=1)
        unit, size = self.unit[given], len(self)
        totals = [np.bincount(unit, weights=column, minlength=size) for column in columns[given].T]
        there = np.bincount(unit, minlength=size) > 0
        found = np.stack(totals, axis=1)[there] if size else np.zeros((0, columns.shape[1]))
        return found, self.strata.select(there)


def levels_of(pairs: Pairs) -> Iterator[tuple[LoadLevel, NDArray[Any]]]:
    """Every load level, small loads first, with the indices of its pairs."""
    import numpy as np

    codes = np.unique(pairs.load)
    levels = sorted((parse_level(str(pairs.table.name(int(code)))) for code in codes), key=lambda level: level.order)
    for level in levels:
        yield level, np.flatnonzero(pairs.load == pairs.table.code(level.label))


def units_of(pairs: Pairs) -> Units:
    """The units of some pairs, their levels in the order of `levels_of`."""
    import numpy as np

    cluster, levels = clusters(pairs), list(levels_of(pairs))
    unit = np.zeros(len(pairs), dtype=np.int64)
    strata: list[NDArray[Any]] = []
    for position, (level, chosen) in enumerate(levels):
        within = _ranked(cluster[chosen]) if level.alone else independent(level, pairs.select(chosen))
        within = batches(int(within.max()) + 1)[within]
        unit[chosen] = within + sum(map(len, strata))
        strata.append(np.full(int(within.max()) + 1, position))
    of = np.concatenate(strata) if strata else np.zeros(0, dtype=np.int64)
    alike = likeness(cluster, [(chosen, level.alone) for level, chosen in levels])
    return Units(unit, Strata(of, alike), _word(cluster, levels))


def _word(cluster: NDArray[Any], levels: list[tuple[LoadLevel, NDArray[Any]]]) -> UnitWord:
    import numpy as np

    if not all(level.alone for level, _ in levels):
        return "blocks"
    return "prompts" if any(len(np.unique(cluster[chosen])) < len(chosen) for _, chosen in levels) else "pairs"


def independent(level: LoadLevel, pairs: Pairs) -> NDArray[Any]:
    """The number of the unit, 0, 1, 2, … in order of time, that each of a level's pairs belongs to.

    At concurrency 1 a prompt with all its repeats, or a session with all its turns; else the block.
    """
    import numpy as np

    if level.alone:
        return _ranked(clusters(pairs))
    if (pairs.block >= 0).any():
        return _ranked(pairs.block)
    largest = int(pairs.table.concurrency[pairs.baseline].max())
    size = max(1, min(_REQUESTS_PER_CONNECTION * largest, len(pairs) // _FEWEST))
    return np.arange(len(pairs)) // size


def _ranked(keys: NDArray[Any]) -> NDArray[Any]:
    """Keys numbered in the order in which they come first."""
    import numpy as np

    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    found: NDArray[Any] = rank[inverse]
    return found
