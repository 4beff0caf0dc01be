"""All that a summary is made of: the requests as a table, and what stands beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from trtspec.loadtest.pairing import Pairs, pair_rows
from trtspec.loadtest.selection import Group, groups_of
from trtspec.loadtest.table import Table
from trtspec.spec.names import Arm

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Evidence", "answers_in_one_piece"]

# an answer of more tokens than this comes in several texts from a server that streams
_LONG_ANSWER = 16


@dataclass(frozen=True)
class Evidence:
    """The requests (start bursts already marked), `measurement.json` and `provenance.json`."""

    table: Table
    measurement: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def groups(self) -> dict[tuple[Arm, str], Group]:
        """(arm, load label) → its requests, in order of arm and level."""
        return groups_of(self.table)

    @cached_property
    def pairs(self) -> Pairs:
        """The prompts that both arms answered at the same level."""
        return pair_rows(self.table)

    def arm(self, arm: Arm) -> Group:
        """All load levels of an arm, pooled."""
        import numpy as np

        rows = self.table.arm_rows(arm)
        return Group(self.table, rows[np.argsort(self.table.start_ns[rows], kind="stable")])

    @property
    def options(self) -> Mapping[str, Any]:
        """The options that the run was started with, as far as they were written down."""
        given = self.provenance.get("options")
        return given if isinstance(given, Mapping) else {}

    @property
    def synthetic(self) -> bool:
        """True when prompts were made of random words."""
        return bool(self.table.synthetic.any())


def answers_in_one_piece(table: Table, measured: NDArray[Any]) -> bool:
    """True when long answers all arrived at once: the server does not stream, and TTFT is the whole latency."""
    tokens = table.answer_tokens[measured]
    counted = tokens[tokens >= 0]
    if not len(counted) or (table.arrivals[measured] > 1).any():
        return False
    return float(counted.mean()) > _LONG_ANSWER
