"""The chosen requests of a table, and the values that several metrics are made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from trtspec.loadtest.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Sample"]


@dataclass(frozen=True)
class Sample:
    """Rows of a table whose texts arrived (others are left out); they are kept in the table's order."""

    table: Table
    chosen: NDArray[Any]

    @cached_property
    def rows(self) -> NDArray[Any]:
        """The rows, ascending."""
        import numpy as np

        ordered = np.sort(self.chosen)
        rows: NDArray[Any] = ordered[self.table.arrivals[ordered] > 0]
        return rows

    @cached_property
    def chunks(self) -> NDArray[Any]:
        """True for the chunks of these rows."""
        import numpy as np

        mine = np.zeros(len(self.table), dtype=bool)
        mine[self.rows] = True
        return np.repeat(mine, np.diff(self.table.chunk_offsets))

    @cached_property
    def starts(self) -> NDArray[Any]:
        """Place of each row's first text among all texts, and their number at the end."""
        import numpy as np

        return np.concatenate([[0], np.cumsum(self.table.arrivals[self.rows], dtype=np.int64)])

    @cached_property
    def times(self) -> NDArray[Any]:
        """Arrivals of all texts, row after row, in ns since the row's start."""
        times: NDArray[Any] = self.table.chunk_ns[self.chunks & self.table.chunk_visible]
        return times

    @cached_property
    def tokens(self) -> NDArray[Any]:
        """Tokens of each text, with those held back before it; -1 where it is not counted."""
        import numpy as np

        counts, visible = self.table.chunk_tokens[self.chunks], self.table.chunk_visible[self.chunks]
        texts = np.flatnonzero(visible)
        total = np.concatenate([[0], np.cumsum(np.maximum(counts, 0), dtype=np.int64)])
        before = np.concatenate([[0], texts[:-1] + 1]) if len(texts) else texts
        sizes = np.diff(self.table.chunk_offsets)[self.rows]
        before[self.starts[:-1]] = np.cumsum(sizes) - sizes
        return np.where(counts[texts] < 0, -1, total[texts + 1] - total[before])

    @cached_property
    def gaps(self) -> NDArray[Any]:
        """Times between neighbouring texts of a row, in ns."""
        import numpy as np

        return np.delete(np.diff(self.times), self.starts[1:-1] - 1)

    @property
    def ttft_ns(self) -> NDArray[Any]:
        """From when each request should have been sent to its first text."""
        values: NDArray[Any] = self.column("first_ns") - self.column("origin_ns")
        return values

    @property
    def latency_ns(self) -> NDArray[Any]:
        """From when each request should have been sent to its last text."""
        values: NDArray[Any] = self.column("last_ns") - self.column("origin_ns")
        return values

    @property
    def streamed_ns(self) -> NDArray[Any]:
        """From each request's first text to its last."""
        values: NDArray[Any] = self.column("last_ns") - self.column("first_ns")
        return values

    def column(self, name: str) -> NDArray[Any]:
        """A column of the table at these rows."""
        values: NDArray[Any] = getattr(self.table, name)[self.rows]
        return values
