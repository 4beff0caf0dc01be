"""Greedy answers of both arms: identical, or where they part and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from trtspec.loadtest.divergence import LOGIC_FAULT, NOT_EXAMINED, Diverged
from trtspec.loadtest.equality import first_divergence
from trtspec.loadtest.jobs import Job
from trtspec.loadtest.pairing import Pair, pair_rows, record_pairs
from trtspec.loadtest.records import Record
from trtspec.loadtest.table import table_of

__all__ = ["answered_pairs", "diverged_pairs", "equality_section"]

NEAR_TIE = "near-tie"
NOT_REPRODUCED = "not reproduced"
_KINDS = (NEAR_TIE, LOGIC_FAULT, NOT_REPRODUCED, NOT_EXAMINED)


def answered_pairs(records: Sequence[Record]) -> list[Pair]:
    """Prompts that both arms answered whole, in order of level and time."""
    return record_pairs(pair_rows(table_of(records)))


def diverged_pairs(pairs: Sequence[Pair], jobs: Sequence[Job]) -> list[Diverged]:
    """Those with different texts, each with the job to ask again."""
    known = {job.pair_id: job for job in jobs}
    return [Diverged(pair, known[pair.key]) for pair in pairs if pair.baseline.text != pair.speculative.text]


def equality_section(
    pairs: Sequence[Pair], examined: Sequence[Mapping[str, Any]], reason: str | None
) -> dict[str, Any]:
    """Counts, and every divergence with what was found there; `reason` says why none was examined."""
    known = {(item["pair"], item["load"]): item for item in examined}
    apart = [pair for pair in pairs if pair.baseline.text != pair.speculative.text]
    nothing = {"verdict": NOT_EXAMINED, "reason": reason or "not reached"}
    places = [{**first_divergence(pair), **known.get((pair.key, pair.load), nothing)} for pair in apart]
    verdicts = Counter(place["verdict"] for place in places)
    return {
        "compared": len(pairs),
        "identical": len(pairs) - len(apart),
        "diverged": len(apart),
        "verdicts": {kind: verdicts.get(kind, 0) for kind in _KINDS},
        "divergences": places,
    }
