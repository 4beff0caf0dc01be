"""Acceptance against the place in the answer: does it decay over long answers?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trtspec.loadtest.correlation import thinned
from trtspec.loadtest.intervals import RATE_SIGNS, Interval, batched_interval, row, unknown
from trtspec.loadtest.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["acceptance_by_position"]

# places in the answer, in tokens; the last bin is open
_EDGES = (0, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
_END = 1 << 62
# inner rounds of an answer that has a first and a second half
_ROUNDS = 8
# tokens and rounds of the earlier half, tokens and rounds of the later half → later over earlier
_DECAY_SIGNS = (-1.0, 1.0, 1.0, -1.0)
_NONE = "no answer came in three texts or more with counted tokens"


def acceptance_by_position(table: Table, rows: NDArray[Any]) -> dict[str, Any]:
    """Tokens per round by the place at which the round begins, and whether they decay.

    A text is taken for a round; an answer's first text (the prompt's pass) and its last (cut off by the end) are left
    out, and so are answers with texts that hold tokens back. Intervals are over answers. `decay` is the tokens per
    round in the later half of each answer's rounds over those in the earlier half: below 1 acceptance decays.
    """
    rounds = _inner_rounds(table, rows[thinned(len(rows))])
    if not len(rounds.tokens):
        return {"bins": [], "decay": row(unknown(_NONE)), "reason": _NONE}
    edges = zip(_EDGES, (*_EDGES[1:], _END), strict=True)
    bins = [found for low, high in edges if (found := _bin(rounds, low, high)) is not None]
    return {"bins": bins, "decay": row(_decay(rounds)), "reason": None}


@dataclass(frozen=True)
class _Rounds:
    """Rounds of several answers: which answer, how many tokens, where in it, which share of its rounds came before.

    `share` is NaN in answers that are too short to have halves.
    """

    request: NDArray[Any]
    tokens: NDArray[Any]
    place: NDArray[Any]
    share: NDArray[Any]

    def sums(self, inside: NDArray[Any]) -> NDArray[Any]:
        """Tokens and rounds of every answer, counting only the rounds `inside`."""
        import numpy as np

        request, size = self.request[inside], int(self.request.max()) + 1
        tokens = np.bincount(request, weights=self.tokens[inside], minlength=size)
        return np.stack([tokens, np.bincount(request, minlength=size)], axis=1)


def _inner_rounds(table: Table, rows: NDArray[Any]) -> _Rounds:
    import numpy as np

    starts = table.chunk_offsets[rows].astype(np.int64)
    sizes = table.chunk_offsets[rows + 1] - starts
    request = np.repeat(np.arange(len(rows)), sizes)
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    within = np.arange(len(request)) - first
    index, length = np.repeat(starts, sizes) + within, np.repeat(sizes, sizes)
    tokens = table.chunk_tokens[index].astype(np.int64)
    odd = np.bincount(request, weights=(tokens < 1) | ~table.chunk_visible[index], minlength=len(rows)) > 0
    before = np.cumsum(tokens) - tokens
    place = before - before[first] if len(before) else before
    inner = (within > 0) & (within < length - 1) & ~odd[request]
    share = np.where(length - 2 >= _ROUNDS, (within - 1) / np.maximum(1, length - 2), np.nan)
    return _Rounds(request[inner], tokens[inner], place[inner], share[inner])


def _bin(rounds: _Rounds, low: int, high: int) -> dict[str, Any] | None:
    sums = rounds.sums((rounds.place >= low) & (rounds.place < high))
    sums = sums[sums[:, 1] > 0]
    if not len(sums):
        return None
    interval = batched_interval(sums, RATE_SIGNS)
    return {
        "start": low,
        "end": None if high == _END else high,
        "tokens_per_round": interval.estimate,
        "low": interval.low,
        "high": interval.high,
        "requests": len(sums),
        "rounds": int(sums[:, 1].sum()),
    }


def _decay(rounds: _Rounds) -> Interval:
    import numpy as np

    early, late = rounds.sums(rounds.share < 0.5), rounds.sums(rounds.share >= 0.5)
    both = np.concatenate([early, late], axis=1)
    both = both[(both > 0).all(axis=1)]
    if not len(both):
        return unknown(f"no answer has {_ROUNDS} rounds between its first and its last text")
    return batched_interval(both, _DECAY_SIGNS)
