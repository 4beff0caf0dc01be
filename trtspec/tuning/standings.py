"""From records to standings: each candidate against the baseline and against the leader, on the same prompts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from trtspec.loadtest.costs import HEADLINE, PAIR_COSTS
from trtspec.loadtest.intervals import RATE_SIGNS, Interval, ratio_interval, unknown
from trtspec.loadtest.level_result import LevelResult
from trtspec.loadtest.levels import parse_level
from trtspec.loadtest.pairing import Pairs, pair_rows
from trtspec.loadtest.records import Record
from trtspec.loadtest.speedups import headline
from trtspec.loadtest.table import table_of
from trtspec.spec.names import BASELINE_ARM, SPECULATIVE, Arm
from trtspec.tuning.options import BASELINE, candidate_name, draft_length_of
from trtspec.tuning.race import Standing

__all__ = ["Cell", "LevelRecords", "candidate_of"]


def candidate_of(record: Record, policy: str | None) -> str:
    """Which candidate a record belongs to."""
    if record.arm == BASELINE_ARM:
        return BASELINE
    return (policy or "") if record.draft_length is None else candidate_name(record.draft_length)


@dataclass(frozen=True)
class Cell:
    """One candidate at one level, against the baseline on the same prompts."""

    pairs: Pairs
    label: str

    @cached_property
    def _result(self) -> LevelResult:
        return LevelResult(parse_level(self.label), self.pairs, {}, one_piece=False)

    @cached_property
    def speedup(self) -> Interval:
        """How many times faster a token comes: the headline of a load test."""
        return headline(self.pairs, self._result.units)

    def total_rate(self, arm: Arm) -> Interval:
        """Output tokens per second of all requests together."""
        return self._result.rate(arm)

    def user_rate(self, arm: Arm) -> Interval:
        """Output tokens per second of one request.

        **Formula:** Σ tokens / Σ (last text - begin of the request) over requests.
        """
        import numpy as np

        cost = PAIR_COSTS[HEADLINE](self.pairs.table, self.pairs.rows(arm))
        columns = np.stack([cost.work, cost.time], axis=1) / [1.0, 1e9]
        sums, _ = self._result.units.sums(columns)
        if not len(sums):
            return unknown("the server counts no tokens")
        return ratio_interval(sums, RATE_SIGNS, count=len(self.pairs), unit=self._result.units.word)


@dataclass
class LevelRecords:
    """All records of one level, by candidate."""

    label: str
    by_candidate: dict[str, list[Record]] = field(default_factory=dict)

    def add(self, candidate: str, records: Iterable[Record]) -> None:
        """Take in what a candidate answered."""
        self.by_candidate.setdefault(candidate, []).extend(records)

    def cell(self, candidate: str, reference: str = BASELINE) -> Cell:
        """A candidate against another, `reference` taking the baseline's place."""
        first = [replace(record, arm=BASELINE_ARM) for record in self.by_candidate.get(reference, ())]
        if candidate == BASELINE:
            second = [replace(record, arm=SPECULATIVE) for record in self.by_candidate.get(BASELINE, ())]
        else:
            second = self.by_candidate.get(candidate, [])
        return Cell(pair_rows(table_of([*first, *second])), self.label)

    def standings(self, candidates: Sequence[str]) -> list[Standing]:
        """The baseline and `candidates`, as far as they have answered the same prompts as the baseline.

        The baseline is in the race like the others: where it leads, lengths that are slower go.
        """
        speedups: dict[str, float] = {BASELINE: 1.0}
        for candidate in candidates:
            found = self.cell(candidate).speedup.estimate
            if found is not None:
                speedups[candidate] = found
        leader = max(speedups, key=lambda name: (speedups[name], -_length(name)))
        return [
            Standing(name, speedup, _length(name), None if name == leader else self.cell(name, leader).speedup)
            for name, speedup in speedups.items()
        ]


def _length(candidate: str) -> float:
    """For ties: nothing drafted is the least work, a policy comes after every length."""
    if candidate == BASELINE:
        return 0
    length = draft_length_of(candidate)
    return float("inf") if length is None else length
