"""From where on a level's measurements are steady, and whether they stay so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trtspec.loadtest.costs import HEADLINE, PAIR_COSTS
from trtspec.loadtest.intervals import row
from trtspec.loadtest.pairing import Pairs
from trtspec.loadtest.speedups import headline
from trtspec.loadtest.table import Table
from trtspec.spec.names import ARMS, Arm

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column = NDArray[Any]

__all__ = ["UNSTEADY", "Window", "halves", "settled", "steady_state", "steady_windows"]

# change of an arm's latency per token, before against after, that is worth a word
UNSTEADY = 0.10
_FEWEST = 20
_BATCHES = 200


def steady_state(pairs: Pairs) -> dict[str, Any]:
    """The window of one level, per arm, and the headline's speed-up of the pairs that lie in it in both arms.

    `skipped` are the requests before the window in order of start, `transient` their latency per token over that of the
    window, `halves` that of the window's second half over its first. Nothing is cut off from the results: this shows
    what cutting would change.
    """
    windows = steady_windows(pairs)
    inside = windows[ARMS[0]].inside & windows[ARMS[1]].inside
    return {
        **{arm: window.to_json() for arm, window in windows.items()},
        "speedup": row(headline(pairs.select(inside))),
    }


def steady_windows(pairs: Pairs) -> dict[Arm, Window]:
    """The window of each arm at one level."""
    return {arm: Window(pairs.table, pairs.rows(arm)) for arm in ARMS}


class Window:
    """Where an arm's requests at one level become steady; `inside` tells it for every row given."""

    def __init__(self, table: Table, rows: Column) -> None:
        import numpy as np

        self._table, self._count = table, len(rows)
        order = np.argsort(table.start_ns[rows], kind="stable")
        self._rows = rows[order]
        self.skipped = settled(_series(table, self._rows))
        self.inside = np.ones(len(rows), dtype=bool)
        self.inside[order[: self.skipped]] = False

    @property
    def transient(self) -> float | None:
        """Latency per token before the window over that within; None when nothing lies before it."""
        skip = self.skipped
        return _ratio(self._table, self._rows[:skip], self._rows[skip:]) if skip else None

    def to_json(self) -> dict[str, Any]:
        """For `steady_state.by_load`; seconds since the level's first request."""
        table, rows, skip = self._table, self._rows, self.skipped
        if not self._count:
            return {"skipped": 0, "requests": 0, "begins": None, "ends": None, "transient": None, "halves": None}
        zero = int(table.origin_ns[rows[0]])
        return {
            "skipped": skip,
            "requests": self._count,
            "begins": (int(table.origin_ns[rows[skip]]) - zero) * 1e-9,
            "ends": (int(table.end_ns[rows].max()) - zero) * 1e-9,
            "transient": self.transient,
            "halves": halves(table, rows[skip:]),
        }


def _series(table: Table, rows: Column) -> Column:
    """Latency per token of the requests in order, NaN where tokens are unknown."""
    cost = PAIR_COSTS[HEADLINE](table, rows)
    found: Column = cost.time / cost.work
    return found


def settled(values: Column) -> int:
    """How many values at the beginning are not yet steady: the marginal standard error rule (White 1997).

    **Formula:** the d that makes Σ (x[i] - mean of x[d:])² / (n - d)² smallest, over medians of up to 200 batches, d at
    most half. 0 with fewer than 20 values, and unless cutting makes that standard error a fifth smaller: without a
    transient some d is always the smallest by a little.
    """
    import numpy as np

    if len(values) < _FEWEST or np.isnan(values).any():
        return 0
    size = max(1, len(values) // _BATCHES)
    count = len(values) // size
    medians = np.median(values[: count * size].reshape(count, size), axis=1)
    left = count - np.arange(count // 2 + 1)
    total, squares = (np.cumsum(part[::-1])[::-1][: len(left)] for part in (medians, medians**2))
    errors = np.maximum(0.0, squares - total**2 / left) / left**2
    best = int(errors.argmin())
    return best * size if errors[best] < 0.64 * errors[0] else 0


def halves(table: Table, rows: Column) -> float | None:
    """Latency per token of the later half of `rows` over the earlier; None with fewer than 20."""
    middle = len(rows) // 2
    return _ratio(table, rows[middle:], rows[:middle]) if len(rows) >= _FEWEST else None


def _ratio(table: Table, one: Column, other: Column) -> float | None:
    first, second = _per_token(table, one), _per_token(table, other)
    return first / second if first is not None and second else None


def _per_token(table: Table, rows: Column) -> float | None:
    import numpy as np

    cost = PAIR_COSTS[HEADLINE](table, rows)
    known = ~np.isnan(cost.time) & ~np.isnan(cost.work)
    return float(cost.time[known].sum() / cost.work[known].sum()) if known.any() else None
