"""Which requests are measured: not the warm-up, not the start burst, not those that failed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from trtspec.loadtest.records import Record
from trtspec.spec.names import Arm

__all__ = ["START_BURST", "Group", "group_records", "mark_start_burst"]

START_BURST = "start burst"
# starts closer together than this share of the first answer's time are simultaneous
_SIMULTANEOUS = 0.05


@dataclass(frozen=True)
class Group:
    """The records of one arm at one concurrency (or of several, pooled)."""

    records: tuple[Record, ...]

    @property
    def counted(self) -> list[Record]:
        """Requests inside the window, whether they succeeded or not."""
        return [record for record in self.records if record.excluded is None]

    @property
    def measured(self) -> list[Record]:
        """Requests that latencies are taken from: inside the window and complete."""
        return [record for record in self.counted if record.ok]

    @property
    def failed(self) -> list[Record]:
        """Requests inside the window that failed; those cancelled by the tester are no failures."""
        return [record for record in self.counted if record.error is not None]

    @property
    def others(self) -> list[Record]:
        """Requests outside the window that kept the server busy."""
        return [record for record in self.records if record.excluded is not None and record.error is None]

    @property
    def excluded(self) -> int:
        """Requests left out: outside the window, or cancelled."""
        return len(self.records) - len(self.measured) - len(self.failed)

    @property
    def error_rate(self) -> float | None:
        """Failed / (failed + ok); None without requests."""
        finished = len(self.measured) + len(self.failed)
        return len(self.failed) / finished if finished else None


def group_records(records: Iterable[Record]) -> dict[tuple[Arm, int], Group]:
    """(arm, concurrency) → its records in order of start, start bursts marked."""
    groups: dict[tuple[Arm, int], list[Record]] = defaultdict(list)
    for record in records:
        groups[record.arm, record.concurrency].append(record)
    ordered = {key: sorted(group, key=lambda record: record.start_ns) for key, group in sorted(groups.items())}
    return {key: Group(tuple(mark_start_burst(group))) for key, group in ordered.items()}


def mark_start_burst(ordered: Sequence[Record]) -> list[Record]:
    """`ordered`, with the requests that opened a closed loop all at once marked as excluded.

    They queue behind one another, so their first tokens come several times later than in the steady state. Applies to
    records that do not say themselves whether they are warm-up; needs at least as many steady requests as burst.
    """
    if not ordered or any(record.marked for record in ordered):
        return list(ordered)
    first = ordered[0]
    limit = first.start_ns + _SIMULTANEOUS * max(0, first.end_ns - first.start_ns)
    burst = [record for record in ordered if record.start_ns <= limit]
    steady = ordered[len(burst) :]
    is_burst = 2 <= len(burst) <= first.concurrency and len(steady) >= len(burst)
    # in a closed loop the next request starts when one of the burst has ended
    if not is_burst or steady[0].start_ns < min(record.end_ns for record in burst):
        return list(ordered)
    return [*(replace(record, excluded=START_BURST) for record in burst), *steady]
