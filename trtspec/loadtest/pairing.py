"""Pairs: the same prompt in both arms at the same concurrency."""

from __future__ import annotations

from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trtspec.loadtest.records import Record
from trtspec.loadtest.selection import Group
from trtspec.spec.names import BASELINE_ARM, SPECULATIVE, Arm

__all__ = ["Pair", "make_pairs"]


@dataclass(frozen=True)
class Pair:
    """One prompt's complete answers of both arms."""

    key: str
    concurrency: int
    baseline: Record
    speculative: Record

    @property
    def category(self) -> str:
        """The prompt's category."""
        return self.baseline.category


def make_pairs(groups: Mapping[tuple[Arm, int], Group]) -> list[Pair]:
    """All pairs, by concurrency and in the baseline's order; prompts that only one arm answered are left out.

    Records without `pair_id` are paired by prompt: the first time it was sent in one arm with the first in the other.
    """
    pairs = []
    for concurrency in sorted({concurrency for _, concurrency in groups}):
        speculative = _by_key(groups.get((SPECULATIVE, concurrency)))
        for key, record in _by_key(groups.get((BASELINE_ARM, concurrency))).items():
            if record.ok and key in speculative and speculative[key].ok:
                pairs.append(Pair(key, concurrency, record, speculative[key]))
    return pairs


def _by_key(group: Group | None) -> dict[str, Record]:
    keyed: dict[str, Record] = {}
    times: Tally[str] = Tally()
    for record in group.counted if group else ():
        name = record.pair_id or record.prompt_id
        times[name] += 1
        keyed[name if times[name] == 1 else f"{name}~{times[name]}"] = record
    return keyed


def repeated_prompts(records: Iterable[Record]) -> int:
    """How many measured requests sent a prompt again within one arm and concurrency."""
    seen: dict[tuple[str, int], set[str]] = defaultdict(set)
    repeats = 0
    for record in records:
        if record.excluded is None:
            group = seen[record.arm, record.concurrency]
            repeats += record.prompt_id in group
            group.add(record.prompt_id)
    return repeats
