"""How a run stands, for whoever shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from trtspec.loadtest.records import Record
from trtspec.spec.names import ARMS, Arm

__all__ = ["ArmStatus", "Listener", "Status", "Tracker"]


@dataclass(frozen=True)
class ArmStatus:
    """One arm so far: what is measured of the level it is in, and in all of the run; None: not known.

    `tokens_per_second` is of the whole level, `seconds_per_request` and `first_token_seconds` are means.
    """

    done: int = 0
    errors: int = 0
    tokens_per_second: float | None = None
    seconds_per_request: float | None = None
    first_token_seconds: float | None = None
    acceptance_rate: float | None = None


@dataclass(frozen=True)
class Status:
    """The run after one more request, which was of `arm` at the load `load`.

    `total` and `seconds_left` are None where nobody knows how many requests there will be.
    """

    arm: Arm
    load: str
    done: int
    total: int | None
    errors: int
    arms: Mapping[Arm, ArmStatus]
    seconds_left: float | None

    def as_json(self) -> dict[str, Any]:
        """For a line of JSON."""
        return asdict(self)


Listener = Callable[[Status], None]


@dataclass
class _Arm:
    """Sums over an arm's measured requests of one level; acceptance and errors over all of them."""

    done: int = 0
    errors: int = 0
    answered: int = 0
    tokens: int = 0
    seconds: float = 0.0
    first: float = 0.0
    busy: float = 0.0
    drafted: int = 0
    accepted: int = 0

    def begin_level(self) -> None:
        self.answered = self.tokens = 0
        self.seconds = self.first = self.busy = 0.0

    def add(self, record: Record, begin_ns: int) -> None:
        if record.server is not None:
            self.drafted += record.server.num_draft_tokens or 0
            self.accepted += record.server.num_accepted_tokens or 0
        measured = record.excluded is None
        self.done += measured
        self.errors += measured and record.error is not None
        # the time in which the arm was under load: from the end of its last request, or from this one's start
        self.busy += max(0, record.end_ns - max(begin_ns, record.start_ns)) * 1e-9
        self.tokens += _tokens(record)
        if measured and record.ok and record.chunks:
            origin = record.start_ns if record.scheduled_ns is None else record.scheduled_ns
            self.answered += 1
            self.seconds += (record.chunks[-1].t_ns - origin) * 1e-9
            self.first += (record.chunks[0].t_ns - origin) * 1e-9

    def status(self) -> ArmStatus:
        return ArmStatus(
            done=self.done,
            errors=self.errors,
            tokens_per_second=self.tokens / self.busy if self.tokens and self.busy > 0 else None,
            seconds_per_request=self.seconds / self.answered if self.answered else None,
            first_token_seconds=self.first / self.answered if self.answered else None,
            acceptance_rate=self.accepted / self.drafted if self.drafted else None,
        )


def _tokens(record: Record) -> int:
    if record.counted_tokens is not None:
        return record.counted_tokens
    return sum(chunk.tokens or 0 for chunk in record.chunks)


@dataclass
class Tracker:
    """Adds up records into statuses; `total` None: it is not known how many there will be."""

    total: int | None
    clock: Callable[[], float] = time.perf_counter
    _load: str | None = None
    _done: int = 0
    _begin: float = 0.0
    _arms: dict[Arm, _Arm] = field(default_factory=lambda: {arm: _Arm() for arm in ARMS})
    _latest_ns: dict[Arm, int] = field(default_factory=dict)

    def add(self, record: Record) -> Status:
        """The status after this record."""
        if record.load != self._load:
            self._load = record.load
            for arm in self._arms.values():
                arm.begin_level()
        if record.excluded is None:
            if not self._done:  # the time left is estimated without the servers' start and the warm-up
                self._begin = self.clock() - (record.end_ns - record.start_ns) * 1e-9
            self._done += 1
        self._arms[record.arm].add(record, self._latest_ns.get(record.arm, 0))
        self._latest_ns[record.arm] = max(record.end_ns, self._latest_ns.get(record.arm, 0))
        return self._status(record)

    def _status(self, record: Record) -> Status:
        arms = {arm: found.status() for arm, found in self._arms.items()}
        errors = sum(arm.errors for arm in arms.values())
        return Status(record.arm, record.load, self._done, self.total, errors, arms, self._seconds_left())

    def _seconds_left(self) -> float | None:
        if self.total is None or not self._done:
            return None
        return (self.clock() - self._begin) / self._done * max(0, self.total - self._done)
