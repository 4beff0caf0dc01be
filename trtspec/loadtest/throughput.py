"""Tokens and requests per second of an arm as a whole, over the time in which it was under load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trtspec.loadtest.levels import parse_level
from trtspec.loadtest.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[Any]

__all__ = ["Load", "active_intervals", "measure_load"]


@dataclass(frozen=True)
class Load:
    """What an arm did in its active time: nanoseconds, tokens (None: not counted) and finished requests."""

    active_ns: int
    tokens: int | None
    requests: int

    @property
    def seconds(self) -> float:
        """The active time."""
        return self.active_ns * 1e-9

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens / active time."""
        return self.tokens / self.seconds if self.tokens is not None and self.active_ns > 0 else None

    @property
    def requests_per_second(self) -> float | None:
        """Requests / active time."""
        return self.requests / self.seconds if self.active_ns > 0 and self.requests else None


def active_intervals(table: Table, rows: Rows) -> tuple[Rows, Rows]:
    """Starts and ends (ns, ascending, apart) of the union of the requests' times: until the last text, or the failure.

    Pauses, in which the other arm had its turn, are left out.
    """
    return _union(table.start_ns[rows], _until(table, rows))


def _until(table: Table, rows: Rows) -> Rows:
    import numpy as np

    until: Rows = np.where(table.failed[rows], table.end_ns[rows], table.active_end_ns[rows])
    return until


def _union(starts: Rows, ends: Rows) -> tuple[Rows, Rows]:
    import numpy as np

    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    if not len(starts):
        return starts, ends
    new = np.concatenate([[True], starts[1:] > ends[:-1]])
    return starts[new], ends[np.append(np.flatnonzero(new)[1:] - 1, len(ends) - 1)]


def _load_intervals(table: Table, rows: Rows) -> tuple[Rows, Rows]:
    """`active_intervals`; in an open loop each block from its first scheduled time on.

    There pauses between requests belong to the load: without them 2 requests/s would be counted as the 10/s that the
    server could have answered.
    """
    import numpy as np

    label = table.name(int(table.load[rows[0]])) if len(rows) else None
    if label is None or parse_level(label).closed or (table.block[rows] < 0).any():
        return active_intervals(table, rows)
    order = np.argsort(table.block[rows], kind="stable")
    rows = rows[order]
    first = np.flatnonzero(np.diff(table.block[rows], prepend=-1))
    return _union(np.minimum.reduceat(table.origin_ns[rows], first), np.maximum.reduceat(_until(table, rows), first))


def measure_load(table: Table, measured: Rows, others: Rows, failed: Rows | None = None) -> Load:
    """Load of one arm at one load level.

    **Formula:** tokens that arrived in the active time, of measured requests and of those that only kept the load up
    (`others`), divided by that time. Requests that failed bring no tokens, but the time that they took is there.
    """
    import numpy as np

    starts, ends = _load_intervals(table, measured if failed is None else np.concatenate([measured, failed]))
    tokens = _tokens_inside(table, (measured, others), starts, ends)
    active = sum((ends - starts).tolist())
    return Load(active, _answer_tokens(table, measured) if tokens is None else tokens, len(measured))


def _answer_tokens(table: Table, measured: Rows) -> int | None:
    """Tokens of whole answers, for servers that count no chunks."""
    counts = table.answer_tokens[measured]
    return int(counts.sum()) if len(counts) and (counts >= 0).all() else None


def _tokens_inside(table: Table, parts: tuple[Rows, ...], starts: Rows, ends: Rows) -> int | None:
    """Tokens of the chunks that arrived within the intervals; None where one is not counted, or none arrived."""
    import numpy as np

    if not len(starts):
        return None
    mine = np.zeros(len(table), dtype=bool)
    for rows in parts:
        mine[rows] = True
    sizes = np.where(mine, np.diff(table.chunk_offsets), 0)
    chunks = np.repeat(mine, np.diff(table.chunk_offsets))
    times = table.chunk_ns[chunks] + np.repeat(table.start_ns, sizes)
    index = np.searchsorted(starts, times, side="right") - 1
    inside = (index >= 0) & (times <= ends[index])
    tokens = table.chunk_tokens[chunks][inside]
    if (tokens < 0).any():
        return None
    return int(tokens.sum()) or None
