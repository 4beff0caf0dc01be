"""Pairs: the same prompt in both arms at the same load level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trtspec.loadtest.records import Record
from trtspec.loadtest.table import UNKNOWN, Table
from trtspec.spec.names import ARMS, BASELINE_ARM, SPECULATIVE, Arm

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Pair", "Pairs", "pair_rows", "record_pairs", "repeated_prompts"]


@dataclass(frozen=True)
class Pairs:
    """Rows of `table` with complete answers to the same prompt at the same load level.

    In order of level and of the baseline's start: neighbours ran one after the other.
    """

    table: Table
    baseline: NDArray[Any]
    speculative: NDArray[Any]

    def __len__(self) -> int:
        return len(self.baseline)

    @property
    def load(self) -> NDArray[Any]:
        """Codes of the load levels."""
        codes: NDArray[Any] = self.table.load[self.baseline]
        return codes

    @property
    def category(self) -> NDArray[Any]:
        """Codes of the prompts' categories."""
        codes: NDArray[Any] = self.table.category[self.baseline]
        return codes

    @property
    def block(self) -> NDArray[Any]:
        """Numbers of the blocks, -1 where a record names none."""
        blocks: NDArray[Any] = self.table.block[self.baseline]
        return blocks

    def rows(self, arm: Arm) -> NDArray[Any]:
        """An arm's row of every pair."""
        return self.baseline if arm == BASELINE_ARM else self.speculative

    def select(self, chosen: NDArray[Any]) -> Pairs:
        """Some of the pairs, by mask or index."""
        return Pairs(self.table, self.baseline[chosen], self.speculative[chosen])

    def at(self, label: str) -> Pairs:
        """The pairs of one load level."""
        return self.select(self.load == self.table.code(label))


def pair_rows(table: Table) -> Pairs:
    """All pairs; prompts that only one arm answered completely are left out.

    Records without `pair_id` are paired by prompt: the first time it was sent in one arm with the first in the other.
    """
    import numpy as np

    keys = {arm: _keys(table, arm) for arm in ARMS}
    _, first, second = np.intersect1d(
        keys[BASELINE_ARM].code, keys[SPECULATIVE].code, assume_unique=True, return_indices=True
    )
    baseline, speculative = keys[BASELINE_ARM].row[first], keys[SPECULATIVE].row[second]
    whole = table.ok[baseline] & table.ok[speculative]
    return _in_order(Pairs(table, baseline[whole], speculative[whole]))


@dataclass(frozen=True)
class _Keys:
    """Rows of an arm inside the window and, for each, what its partner in the other arm has too."""

    row: NDArray[Any]
    code: NDArray[Any]


def _keys(table: Table, arm: Arm) -> _Keys:
    """The code holds the level, the pair and how often that pair had come before."""
    import numpy as np

    rows = np.flatnonzero((table.arm == ARMS.index(arm)) & (table.excluded == UNKNOWN))
    names = len(table.names) + 1
    group = table.load[rows].astype(np.int64) * names + table.pair[rows]
    order = np.lexsort((table.start_ns[rows], group))
    rows, group = rows[order], group[order]
    return _Keys(rows, group * (len(table) + 1) + _occurrence(group))


def _occurrence(ordered: NDArray[Any]) -> NDArray[Any]:
    """0 for the first of equal neighbours, 1 for the second and so on."""
    import numpy as np

    if not len(ordered):
        return ordered
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, len(ordered)])
    return np.arange(len(ordered)) - np.repeat(starts, lengths)


def _in_order(pairs: Pairs) -> Pairs:
    import numpy as np

    table = pairs.table
    rank = {
        code: index for index, code in enumerate(sorted(np.unique(pairs.load).tolist(), key=table.names.__getitem__))
    }
    level = np.array([rank[code] for code in pairs.load.tolist()], dtype=np.int64)
    starts = [table.start_ns[pairs.speculative], table.start_ns[pairs.baseline], level]
    order = np.lexsort(starts)
    tied = np.logical_and.reduce([key[order][1:] == key[order][:-1] for key in starts])
    if tied.any():
        # in hand-made files: the pair's name decides, so that the order of lines does not show
        names = table.names_of(table.pair[pairs.baseline].tolist())
        order = np.lexsort([np.unique(np.array(names, dtype=object), return_inverse=True)[1], *starts])
    return pairs.select(order)


@dataclass(frozen=True)
class Pair:
    """One prompt's complete answers of both arms, texts included."""

    key: str
    baseline: Record
    speculative: Record

    @property
    def category(self) -> str:
        """The prompt's category."""
        return self.baseline.category

    @property
    def concurrency(self) -> int:
        """Of the level."""
        return self.baseline.concurrency

    @property
    def load(self) -> str:
        """Label of the level."""
        return self.baseline.load


def record_pairs(pairs: Pairs) -> list[Pair]:
    """The pairs with their whole records. Meant for few: the texts are loaded."""
    table = pairs.table
    baseline, speculative = table.records(pairs.baseline), table.records(pairs.speculative)
    return [
        Pair(str(table.name(int(table.pair[row]))), one, other)
        for row, one, other in zip(pairs.baseline, baseline, speculative, strict=True)
    ]


def repeated_prompts(table: Table) -> int:
    """How many measured requests sent a prompt again within one arm and load level."""
    import numpy as np

    inside = table.excluded == UNKNOWN
    sent = table.load[inside].astype(np.int64) * len(table.names) + table.prompt[inside]
    sent = sent * len(ARMS) + table.arm[inside]
    return len(sent) - len(np.unique(sent))
