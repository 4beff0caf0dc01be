"""Figures of single requests out of a run's table, as arrays: what charts and tables of any size are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trtspec.spec.names import ARMS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trtspec.loadtest.pairing import Pairs
    from trtspec.loadtest.table import Table

__all__ = ["TIMES", "failures", "measured", "pair_acceptance", "pair_speedups", "samples", "seconds", "shown_rows"]

_NS = 1e-9
# answers that a page shows: more is slow to open, and the raw file has all
_SHOWN_ROWS = 1000
_SHOWN_CHARACTERS = 800_000


def _until(of: str) -> Callable[[Table], NDArray[Any]]:
    return lambda table: getattr(table, of) - table.origin_ns


def _per_token(table: Table) -> NDArray[Any]:
    import numpy as np

    tokens = table.tokens_after_first
    spans: NDArray[Any] = (table.last_ns - table.first_ns) / np.where(tokens > 0, tokens, 1)
    return spans


_SPANS: dict[str, Callable[[Table], NDArray[Any]]] = {
    "time_to_first_token": _until("first_ns"),
    "time_per_output_token": _per_token,
    "request_latency": _until("last_ns"),
    "max_stall": lambda table: table.max_stall_ns,
}
# what a request is timed by; formulas as in `trtspec.loadtest.metrics`
TIMES = tuple(_SPANS)


def seconds(table: Table, name: str) -> NDArray[Any]:
    """A time of every request in seconds, NaN where it was not measured."""
    import numpy as np

    known = table.arrivals > 0
    if name == "time_per_output_token":
        known = known & (table.tokens_after_first > 0)
    elif name == "max_stall":
        known = known & (table.max_stall_ns >= 0)
    return np.where(known, _SPANS[name](table) * _NS, np.nan)


def measured(table: Table, *, arm: str | None = None, load: str | None = None) -> NDArray[Any]:
    """True for the requests that figures are of: inside the window, whole answer; of one arm, of one load level."""
    mask = table.ok & (table.excluded < 0)
    if arm is not None:
        mask = mask & (table.arm == ARMS.index(arm))
    return mask if load is None else mask & (table.load == table.code(load))


def samples(table: Table, name: str, *, arm: str, load: str | None = None) -> NDArray[Any]:
    """The known values of a time, ascending, in seconds."""
    import numpy as np

    values = seconds(table, name)[measured(table, arm=arm, load=load)]
    return np.sort(values[~np.isnan(values)])


def pair_speedups(pairs: Pairs) -> NDArray[Any]:
    """Baseline's latency over the speculative arm's, NaN where one is not known."""
    import numpy as np

    latency = seconds(pairs.table, "request_latency")
    baseline, speculative = latency[pairs.baseline], latency[pairs.speculative]
    return np.divide(baseline, speculative, out=np.full(len(baseline), np.nan), where=speculative > 0)


def pair_acceptance(pairs: Pairs) -> NDArray[Any]:
    """Accepted share of the drafted tokens of each pair's speculative request, NaN without counters."""
    import numpy as np

    drafted, accepted = pairs.table.drafted[pairs.speculative], pairs.table.accepted[pairs.speculative]
    known = (drafted > 0) & (accepted >= 0)
    return np.divide(accepted, drafted, out=np.full(len(drafted), np.nan), where=known)


def failures(table: Table) -> list[tuple[str, str, str, int]]:
    """(arm, load, error, requests) of what failed inside the window, the most frequent first."""
    import numpy as np

    rows = np.flatnonzero(table.failed & (table.excluded < 0))
    keys = np.stack([table.arm[rows], table.load[rows], table.error[rows], table.cancelled[rows]], axis=1)
    found, counts = np.unique(keys, axis=0, return_counts=True)
    told = [
        (ARMS[arm], str(table.name(load)), table.name(error) or _SILENT[bool(cancelled)], count)
        for (arm, load, error, cancelled), count in zip(found.tolist(), counts.tolist(), strict=True)
    ]
    return sorted(told, key=lambda row: (-row[3], row))


# what failed without an error: cancelled → its name
_SILENT = {True: "no answer in time", False: "an answer without text"}


def shown_rows(table: Table, pairs: Pairs) -> NDArray[Any]:
    """The requests whose answers a page shows: whole prompts, those first whose answers differ, as many as fit."""
    import numpy as np

    counted = np.flatnonzero(table.excluded < 0)
    apart = table.text_hash[pairs.baseline] != table.text_hash[pairs.speculative]
    differs = np.isin(table.prompt[counted], table.prompt[pairs.baseline[apart]])
    names = np.array(table.names, dtype=object)[table.prompt[counted]] if len(counted) else np.zeros(0, dtype=object)
    order = np.lexsort((table.start_ns[counted], names.astype(str), ~differs))
    chosen = counted[order]
    changes = np.flatnonzero(np.diff(table.prompt[chosen])) + 1
    ends = np.append(changes, len(chosen))
    size = np.cumsum(table.text_length[chosen])[ends - 1] if len(chosen) else ends
    fitting = int(np.count_nonzero((size <= _SHOWN_CHARACTERS) & (ends <= _SHOWN_ROWS)))
    # the first prompt is shown however long it is
    shown: NDArray[Any] = chosen[: ends[max(0, fitting - 1)]][:_SHOWN_ROWS]
    return shown
