"""What becomes of every record: written, counted, shown, and remembered as far as the run itself needs it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from trtspec.loadtest.divergence import LIMIT, Diverged
from trtspec.loadtest.jobs import Job
from trtspec.loadtest.lag import SendLag
from trtspec.loadtest.pairing import Pair
from trtspec.loadtest.records import Record, RecordWriter
from trtspec.loadtest.status import Listener, Tracker
from trtspec.spec.names import BASELINE_ARM, Arm

__all__ = ["Recorder"]

_RECENT = 50
# so many different texts of errors are remembered
_MOST_ERRORS = 100


@dataclass
class Recorder:
    """Takes in records as they end.

    Those whose server did not count every text wait for `flush`, which counts them with `count_tokens` between blocks:
    it takes time that the measurement has not. `level` are the records of this level, where `keep_level` asks for them.
    """

    writer: RecordWriter
    tracker: Tracker
    listener: Listener | None = None
    count_tokens: Callable[[str], int] | None = None
    keep_level: bool = False
    count: int = 0
    errors: set[str] = field(default_factory=set)
    error_codes: set[str] = field(default_factory=set)
    level: list[Record] = field(default_factory=list)
    diverged: list[Diverged] = field(default_factory=list)
    send_lag: SendLag = field(default_factory=SendLag)
    _waiting: list[Record] = field(default_factory=list)
    _jobs: dict[str | None, Job] = field(default_factory=dict)
    _partners: dict[str | None, Record] = field(default_factory=dict)
    _seconds: dict[Arm, deque[float]] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        """Take in a record."""
        if self.count_tokens is not None and any(chunk.text and chunk.tokens is None for chunk in record.chunks):
            self._waiting.append(record)
        else:
            self._take(record)

    def flush(self) -> None:
        """Count the tokens of what waits, and write it."""
        waiting, self._waiting = self._waiting, []
        for record in waiting:
            assert self.count_tokens is not None, "nothing waits without it"
            self._take(_counted(record, self.count_tokens))

    def _take(self, record: Record) -> None:
        self.writer.write(record)
        self.count += 1
        if record.ok:
            seconds = self._seconds.setdefault(record.arm, deque(maxlen=_RECENT))
            seconds.append((record.end_ns - record.start_ns) * 1e-9)
        if record.error is not None and record.excluded is None and len(self.errors) < _MOST_ERRORS:
            self.errors.add(record.error)
            self.error_codes.add(record.error_code or "error")
        if record.scheduled_ns is not None and record.scheduled_ns != record.start_ns:
            self.send_lag.add((record.start_ns - record.scheduled_ns) * 1e-9)
        if self.keep_level:
            self.level.append(record)
        self._match(record)
        status = self.tracker.add(record)
        if self.listener is not None:
            self.listener(status)

    def _match(self, record: Record) -> None:
        if record.excluded is not None or record.pair_id not in self._jobs:
            return
        partner = self._partners.pop(record.pair_id, None)
        if partner is None or partner.arm == record.arm:
            self._partners[record.pair_id] = record
        elif record.ok and partner.ok and record.text != partner.text and len(self.diverged) < LIMIT:
            baseline, other = (record, partner) if record.arm == BASELINE_ARM else (partner, record)
            self.diverged.append(Diverged(Pair(record.pair_id or "", baseline, other), self._jobs[record.pair_id]))

    def block_begins(self, jobs: Sequence[Job]) -> None:
        """Both arms are about to answer a block of `jobs`."""
        self._partners.clear()
        self._jobs = {job.pair_id: job for job in jobs}

    def mean_seconds(self, arm: Arm) -> float | None:
        """Mean duration of the arm's last whole answers; None before the first."""
        seconds = self._seconds.get(arm)
        return sum(seconds) / len(seconds) if seconds else None


def _counted(record: Record, count: Callable[[str], int]) -> Record:
    """`record` with the tokens of its first text, which a time per token needs, and of its whole text.

    A count of the whole answer that the server gave itself holds: then only the first text is counted.
    """
    first = next(index for index, chunk in enumerate(record.chunks) if chunk.text)
    chunks = list(record.chunks)
    if chunks[first].tokens is None:
        chunks[first] = replace(chunks[first], tokens=count(chunks[first].text))
    made = replace(record, chunks=tuple(chunks))
    if record.server is not None and record.server.num_output_tokens is not None:
        return made
    return replace(made, tokens_source="tokenizer", counted_tokens=count(record.text))
