"""Speculation against the baseline: speed-ups with intervals, equality, break-even, verdict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trtspec.loadtest.bootstrap import CONFIDENCE, Interval, speedup
from trtspec.loadtest.caveats import Evidence, answers_in_one_piece, caveats, withheld
from trtspec.loadtest.costs import HEADLINE, PAIR_COSTS, pair_costs, throughput_costs
from trtspec.loadtest.equality import equality
from trtspec.loadtest.pairing import Pair
from trtspec.loadtest.records import Record
from trtspec.loadtest.verdict import Level, break_even, overall_code, verdict_sentence
from trtspec.spec.names import ARMS

__all__ = ["METHOD", "compare"]

METHOD = (
    "Pairs are the same prompt in both arms at the same concurrency. A speed-up is the baseline's total time over its "
    "total work, divided by the same of the speculative arm: work is tokens for latency_per_token, "
    "time_per_output_token and output_tokens_per_second, requests for request_latency and time_to_first_token. Above 1 "
    "speculation is faster. Intervals are 95 % BCa bootstraps over pairs (over blocks for output_tokens_per_second). "
    f"The verdict rests on {HEADLINE}: request latency divided by tokens, so that answers of different length compare."
)
_STREAMING = frozenset({"time_per_output_token", "time_to_first_token"})


def compare(evidence: Evidence, examined: Iterable[Mapping[str, Any]] = (), *, seed: int = 1) -> dict[str, Any]:
    """The comparison section of a summary."""
    pairs = evidence.pairs
    others = _Others(evidence)
    levels = [Level(c, _headline(members, seed)) for c, members in _by(pairs, lambda pair: pair.concurrency)]
    reason = withheld(evidence)
    at, why = (None, f"no verdict: {reason}") if reason else break_even(levels)
    return {
        "speedup": _speedups(pairs, others, evidence, seed),
        "headline": HEADLINE,
        "by_concurrency": {
            str(c): {
                "pairs": len(members),
                "verdict": "INCONCLUSIVE" if reason else level.code,
                "speedup": _speedups(members, others, evidence, seed),
            }
            for level, (c, members) in zip(levels, _by(pairs, lambda pair: pair.concurrency), strict=True)
        },
        "by_category": {
            name: {"pairs": len(members), "speedup": _speedups(members, None, evidence, seed)}
            for name, members in _by(pairs, lambda pair: pair.category)
        },
        "equality": equality(pairs, examined),
        "break_even_concurrency": at,
        "break_even_reason": why,
        "verdict": f"No verdict: {reason}." if reason else verdict_sentence(levels),
        "verdict_code": "INCONCLUSIVE" if reason or not levels else overall_code(levels),
        "withheld": reason,
        "warnings": caveats(evidence),
        "method": METHOD,
    }


def _headline(pairs: Sequence[Pair], seed: int) -> Interval:
    """The headline speed-up; per request where the server counts no tokens."""
    counted = speedup(pair_costs(pairs, PAIR_COSTS[HEADLINE]), seed=seed)
    return counted if counted.count else speedup(pair_costs(pairs, PAIR_COSTS["request_latency"]), seed=seed)


def _by(pairs: Iterable[Pair], key: Any) -> list[tuple[Any, list[Pair]]]:
    grouped: dict[Any, list[Pair]] = defaultdict(list)
    for pair in pairs:
        grouped[key(pair)].append(pair)
    return sorted(grouped.items())


def _speedups(pairs: Sequence[Pair], others: _Others | None, evidence: Evidence, seed: int) -> dict[str, Any]:
    void = any(answers_in_one_piece(evidence.arm(arm).measured) for arm in ARMS)
    found = {}
    for name, measure in PAIR_COSTS.items():
        if void and name in _STREAMING:
            found[name] = Interval(None, None, None, 0, "an arm answers in one piece")
        else:
            found[name] = speedup(pair_costs(pairs, measure), seed=seed)
    if others is not None:
        found["output_tokens_per_second"] = speedup(throughput_costs(pairs, others.of), seed=seed, unit="blocks")
    return {name: _row(interval) for name, interval in found.items()}


def _row(interval: Interval) -> dict[str, Any]:
    return {
        "estimate": interval.estimate,
        "low": interval.low,
        "high": interval.high,
        "confidence": CONFIDENCE,
        "count": interval.count,
        "reason": interval.reason,
    }


class _Others:
    """The requests outside the window, by arm, concurrency and block."""

    def __init__(self, evidence: Evidence) -> None:
        self._blocks: dict[tuple[str, int, int | None], list[Record]] = defaultdict(list)
        for (arm, concurrency), group in evidence.groups.items():
            for record in group.others:
                self._blocks[arm, concurrency, record.block].append(record)

    def of(self, pair: Pair, arm: str) -> Sequence[Record]:
        """Those of a pair's block in one arm."""
        return self._blocks.get((arm, pair.concurrency, pair.baseline.block), [])
