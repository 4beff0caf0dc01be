"""One row a request, flat, for spreadsheets and data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trtspec.reports.rows import TIMES, seconds
from trtspec.spec.names import ARMS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trtspec.loadtest.table import Table

__all__ = ["NAMES", "count_columns", "request_columns"]

# column → the table's
NAMES = {"load": "load", "prompt_id": "prompt", "category": "category", "pair_id": "pair"}
_COUNTS = {
    "chunks": "arrivals",
    "input_tokens": "input_tokens",
    "output_tokens": "answer_tokens",
    "rounds": "steps",
    "drafted": "drafted",
    "accepted": "accepted",
    "block": "block",
    "turn": "turn",
    "worker": "worker",
}
_LOOKUPS = {"lookup_rounds": "lookup_steps", "lookup_drafted": "lookup_drafted", "lookup_accepted": "lookup_accepted"}
_STATUSES = ("ok", "failed", "cancelled", "excluded")


def count_columns(table: Table) -> Mapping[str, str]:
    """Column → the table's; those of lookups only where a server told of them."""
    return {**_COUNTS, **(_LOOKUPS if (table.lookup_steps >= 0).any() else {})}


def request_columns(table: Table, rows: slice | NDArray[Any]) -> Mapping[str, Sequence[Any]]:
    """Column → values of `rows`, None where unknown: seconds end in `_s`, counts have no unit."""
    times = {f"{name}_s": _known(seconds(table, name)[rows]) for name in TIMES}
    drafted, accepted = table.drafted[rows], table.accepted[rows]
    known = zip(drafted.tolist(), accepted.tolist(), strict=True)
    return {
        "arm": [ARMS[code] for code in table.arm[rows].tolist()],
        **{name: table.names_of(getattr(table, column)[rows].tolist()) for name, column in NAMES.items()},
        "concurrency": table.concurrency[rows].tolist(),
        "start_s": ((table.start_ns[rows] - _origin(table)) / 1e9).tolist(),
        "send_lag_s": (_lag(table)[rows] / 1e9).tolist(),
        "status": [_STATUSES[code] for code in _status(table)[rows].tolist()],
        "error": table.names_of(table.error[rows].tolist()),
        "excluded": table.names_of(table.excluded[rows].tolist()),
        **times,
        **{name: _counted(getattr(table, column)[rows]) for name, column in count_columns(table).items()},
        "acceptance_rate": [a / d if d > 0 and a >= 0 else None for d, a in known],
    }


def _origin(table: Table) -> int:
    return int(table.start_ns.min()) if len(table) else 0


def _lag(table: Table) -> NDArray[Any]:
    lag: NDArray[Any] = table.start_ns - table.origin_ns
    return lag


def _status(table: Table) -> NDArray[Any]:
    import numpy as np

    codes = np.where(table.failed, 1, np.where(table.cancelled, 2, 0))
    status: NDArray[Any] = np.where(table.excluded >= 0, 3, codes)
    return status


def _known(values: NDArray[Any]) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]  # noqa: PLR0124 - NaN is not itself


def _counted(values: NDArray[Any]) -> list[int | None]:
    return [None if value < 0 else value for value in values.tolist()]
