"""Which requests are measured: not the warm-up, not the start burst, not those that failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trtspec.loadtest.levels import parse_level
from trtspec.loadtest.table import UNKNOWN, Table
from trtspec.spec.names import ARMS, Arm

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[Any]

__all__ = ["START_BURST", "Group", "groups_of", "mark_start_bursts"]

START_BURST = "start burst"
# starts closer together than this share of the first answer's time are simultaneous
_SIMULTANEOUS = 0.05


@dataclass(frozen=True)
class Group:
    """Requests of one arm at one load level (or at several, pooled): rows of a table in order of start."""

    table: Table
    rows: Rows

    @property
    def counted(self) -> Rows:
        """Requests inside the window, whether they succeeded or not."""
        inside: Rows = self.rows[self.table.excluded[self.rows] == UNKNOWN]
        return inside

    @property
    def measured(self) -> Rows:
        """Requests that latencies are taken from: inside the window and complete."""
        counted = self.counted
        measured: Rows = counted[self.table.ok[counted]]
        return measured

    @property
    def failed(self) -> Rows:
        """Requests inside the window that failed; those cancelled by the tester are no failures."""
        counted = self.counted
        failed: Rows = counted[self.table.failed[counted]]
        return failed

    @property
    def others(self) -> Rows:
        """Requests outside the window that kept the server busy."""
        outside = self.table.excluded[self.rows] != UNKNOWN
        others: Rows = self.rows[outside & (self.table.error[self.rows] == UNKNOWN)]
        return others

    @property
    def excluded(self) -> int:
        """Requests left out: outside the window, or cancelled."""
        return len(self.rows) - len(self.measured) - len(self.failed)

    @property
    def error_rate(self) -> float | None:
        """Failed / (failed + ok); None without requests."""
        finished = len(self.measured) + len(self.failed)
        return len(self.failed) / finished if finished else None


def groups_of(table: Table) -> dict[tuple[Arm, str], Group]:
    """(arm, load label) → its requests in order of start, in order of arm and level. Start bursts: mark them before."""
    import numpy as np

    groups = {}
    for arm in ARMS:
        rows = table.arm_rows(arm)
        rows = rows[np.argsort(table.start_ns[rows], kind="stable")]
        loads = table.load[rows]
        levels = [parse_level(table.names[code]) for code in np.unique(loads).tolist()]
        for level in sorted(levels, key=lambda level: level.order):
            groups[arm, level.label] = Group(table, rows[loads == table.code(level.label)])
    return groups


def mark_start_bursts(table: Table) -> Table:
    """`table`, with the requests that opened a closed loop all at once marked as excluded.

    They queue behind one another, so their first tokens come several times later than in the steady state. Applies to
    records that do not say themselves whether they are warm-up; needs at least as many steady requests as burst.
    """
    import numpy as np

    if table.marked.all():
        return table
    bursts = [_burst(table, group.rows) for group in groups_of(table).values()]
    rows = np.concatenate(bursts)
    return table.with_excluded(rows, START_BURST) if len(rows) else table


def _burst(table: Table, ordered: Rows) -> Rows:
    """The rows among `ordered` (one arm and level) that are a start burst."""
    nothing = ordered[:0]
    if not len(ordered) or table.marked[ordered].any():
        return nothing
    first = ordered[0]
    start, end = (int(column[first]) for column in (table.start_ns, table.end_ns))
    limit = start + _SIMULTANEOUS * max(0, end - start)
    burst = ordered[table.start_ns[ordered] <= limit]
    steady = ordered[len(burst) :]
    is_burst = 2 <= len(burst) <= table.concurrency[first] and len(steady) >= len(burst)
    # in a closed loop the next request starts when one of the burst has ended
    if not is_burst or table.start_ns[steady[0]] < table.end_ns[burst].min():
        return nothing
    return burst
