"""What the chunks of each request say together: first and last text, tokens, longest stall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trtspec.loadtest.raw_values import NEVER, NotPlain, small

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column = NDArray[Any]

__all__ = ["Chunks", "check_order"]


def check_order(times: Column, rows: Column, start: Column) -> None:
    """NotPlain unless each row's times rise and none is before its start."""
    falls = (times[1:] < times[:-1]) & (rows[1:] == rows[:-1])
    if falls.any() or (times < start[rows]).any():
        raise NotPlain


class Chunks:
    """The chunks with text or tokens of a batch, and what a row's chunks say together."""

    def __init__(self, rows: Column, times: Column, tokens: Column, visible: Column, count: int) -> None:
        import numpy as np

        self.rows, self.times, self.tokens, self.visible, self.count = rows, times, tokens, visible, count
        self.offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))]).astype(np.int64)
        self.texts = np.flatnonzero(visible)
        self.text_rows = rows[self.texts]
        self.arrivals = np.bincount(self.text_rows, minlength=count)
        self.text_offsets = np.concatenate([[0], np.cumsum(self.arrivals)]).astype(np.int64)
        self.some = np.flatnonzero(self.arrivals)
        # running totals, so that any stretch of chunks is a difference of two
        self._known = np.concatenate([[0], np.cumsum(np.maximum(tokens, 0))])
        self._unknown = np.concatenate([[0], np.cumsum(tokens < 0)])

    def _sum(self, start: Column, end: Column) -> Column:
        """Tokens of the chunks start:end; -1 where one is not counted."""
        import numpy as np

        unknown = self._unknown[end] > self._unknown[start]
        return np.where(unknown, -1, self._known[end] - self._known[start])

    def columns(self, given: Mapping[str, Column], *, zero_counted: Column) -> dict[str, Column]:
        """The table's columns that come from chunks.

        `given` has the rows' times and the server's and the tokenizer's counts; `zero_counted` is True where a chunk
        was left out that said 0 tokens: such an answer is counted.
        """
        import numpy as np

        some, starts = self.some, self.offsets[:-1]
        first, last = self.texts[self.text_offsets[:-1][some]], self.texts[self.text_offsets[1:][some] - 1]
        out = {name: np.full(self.count, NEVER, dtype=np.int64) for name in ("first_ns", "last_ns")}
        out["first_ns"][some], out["last_ns"][some] = self.times[first], self.times[last]
        counted = self._answer(zero_counted)
        answer = np.where(counted >= 0, counted, given["output_tokens"])
        answer = np.where(answer >= 0, answer, given["counted_tokens"])
        tokens, first_tokens, after = (np.full(self.count, -1) for _ in range(3))
        first_tokens[some] = self._sum(starts[some], first + 1)
        summed = self._sum(starts[some], last + 1)
        tokens[some] = np.where(summed >= 0, summed, answer[some])
        after[some] = self._after(first, last, first_tokens[some], answer[some])
        return {
            **out,
            "active_end_ns": self._active_end(given["end_ns"]),
            "arrivals": self.arrivals.astype(np.int32),
            "tokens": small(tokens),
            "first_tokens": small(first_tokens),
            "tokens_after_first": small(after),
            "answer_tokens": small(answer),
            "max_stall_ns": self._stalls(),
            "chunk_offsets": self.offsets,
            "chunk_ns": self.times - given["start_ns"][self.rows],
            "chunk_tokens": small(self.tokens),
            "chunk_visible": self.visible,
        }

    def _answer(self, zero_counted: Column) -> Column:
        """Tokens of all chunks; -1 where a text is not counted or nothing is."""
        import numpy as np

        total = self._sum(self.offsets[:-1], self.offsets[1:])
        nothing = (self.offsets[1:] == self.offsets[:-1]) & ~zero_counted
        return np.where(nothing, -1, total)

    def _after(self, first: Column, last: Column, first_tokens: Column, answer: Column) -> Column:
        """Tokens after the first text: counted, else those of the whole answer less the first text's."""
        import numpy as np

        counted = self._sum(first + 1, last + 1)
        rest = np.where((first_tokens >= 0) & (answer >= 0), answer - first_tokens, -1)
        return np.where(counted >= 0, counted, np.maximum(rest, -1))

    def _active_end(self, end: Column) -> Column:
        import numpy as np

        filled = np.flatnonzero(np.diff(self.offsets))
        active = end.copy()
        active[filled] = self.times[self.offsets[1:][filled] - 1]
        return active

    def _stalls(self) -> Column:
        import numpy as np

        gaps = np.diff(self.times[self.texts], prepend=0)
        begin = self.text_offsets[:-1][self.some]
        gaps[begin] = -1
        stalls = np.full(self.count, -1)
        if len(gaps):
            stalls[self.some] = np.maximum.reduceat(gaps, begin)
        return stalls
