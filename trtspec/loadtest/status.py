"""How a run stands, for whoever shows it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from trtspec.loadtest.records import Record
from trtspec.loadtest.timeline import output_tokens
from trtspec.spec.names import Arm

__all__ = ["Listener", "Status", "Tracker"]


@dataclass(frozen=True)
class Status:
    """The run after one more request. `tokens_per_second` is of this arm and concurrency; None: not known."""

    arm: Arm
    concurrency: int
    done: int
    total: int
    errors: int
    tokens_per_second: float | None
    acceptance_rate: float | None
    seconds_left: float | None


Listener = Callable[[Status], None]


class Tracker:
    """Adds up records into statuses."""

    def __init__(self, total: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self._total = total
        self._clock = clock
        self._begin = clock()
        self._done = self._errors = self._drafted = self._accepted = 0
        self._tokens: dict[tuple[Arm, int], int] = {}
        self._busy: dict[tuple[Arm, int], float] = {}

    def add(self, record: Record) -> Status:
        """The status after this record."""
        place = record.arm, record.concurrency
        if record.excluded is None:
            if not self._done:  # the time left is estimated without the servers' start and the warm-up
                self._begin = self._clock() - (record.end_ns - record.start_ns) * 1e-9
            self._done += 1
            self._errors += record.error is not None
        self._tokens[place] = self._tokens.get(place, 0) + (output_tokens(record) or 0)
        # connections run side by side, so each adds its share of the time
        busy = (record.end_ns - record.start_ns) * 1e-9 / record.concurrency
        self._busy[place] = self._busy.get(place, 0.0) + busy
        if record.server is not None:
            self._drafted += record.server.num_draft_tokens or 0
            self._accepted += record.server.num_accepted_tokens or 0
        return Status(
            *place,
            done=self._done,
            total=self._total,
            errors=self._errors,
            tokens_per_second=self._tokens[place] / self._busy[place] if self._busy[place] > 0 else None,
            acceptance_rate=self._accepted / self._drafted if self._drafted else None,
            seconds_left=self._seconds_left(),
        )

    def _seconds_left(self) -> float | None:
        elapsed = self._clock() - self._begin
        return elapsed / self._done * (self._total - self._done) if self._done else None
