"""Who goes on to the next rung: successive halving that never drops a candidate by noise alone. Pure.

Plain successive halving (Karnin and others 2013) drops the worse half whatever the noise is, and a lucky or unlucky
first rung decides. Here, as in a race (Maron and Moore 1994), a candidate goes when it is *shown* to be slower than the
leader, and each rung is as long as all before it together, so that those that are close get the time that the others
no longer use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trtspec.loadtest.intervals import CONFIDENCE, Interval, student_quantile

__all__ = ["RUNGS", "Decision", "Standing", "comparisons", "decide", "rounds_of_rung"]

RUNGS = 5
"""rungs at most; the last one ends with 16 times the prompts of the first"""


@dataclass(frozen=True)
class Standing:
    """A candidate, how fast it is against the baseline, and how many times faster than the leader (None: it leads)."""

    candidate: str
    speedup: float
    length: float
    """for ties: the shorter draft is less work for the same speed"""
    to_leader: Interval | None = None


@dataclass(frozen=True)
class Decision:
    """After a rung: who goes on, who goes and why, and who would win now; `settled`: more measuring changes nothing."""

    kept: tuple[str, ...]
    dropped: Mapping[str, str]
    winner: str | None
    settled: bool


def rounds_of_rung(rung: int) -> int:
    """Rounds of prompts in rung 0, 1, 2, …: 1, 1, 2, 4, …, so that each doubles what there is."""
    return 1 if rung == 0 else 1 << (rung - 1)


def comparisons(candidates: int) -> int:
    """Comparisons that a race of so many (the baseline not counted) can make.

    Every pair in every rung: the leader is whoever looks best, so each may be compared with each.
    """
    return RUNGS * (candidates + 1) * candidates // 2


def decide(standings: Sequence[Standing], *, tolerance: float, tests: int) -> Decision:
    """Drop candidates whose interval to the leader does not reach it, at 95 % confidence over all `tests` of a level.

    The leader is what has no interval to itself. One that is as good (its interval lies within `tolerance`) is kept,
    also when it is shown to be a little slower; when all that are left are as good, the shortest of them wins.
    """
    leader = next(one for one in standings if one.to_leader is None)
    dropped, kept, as_good = {}, [leader], [leader]
    for one in standings:
        if one.to_leader is None:
            continue
        low, high = corrected(one.to_leader, tests)
        alike = low is not None and high is not None and low >= 1 / (1 + tolerance) and high <= 1 + tolerance
        if high is not None and high < 1 and not alike:
            dropped[one.candidate] = f"at most {high:.2f} times as fast as {leader.candidate}"
            continue
        kept.append(one)
        if alike:
            as_good.append(one)
    settled = len(as_good) == len(kept)
    winner = min(as_good, key=lambda one: one.length) if settled else leader
    return Decision(tuple(one.candidate for one in kept), dropped, winner.candidate, settled)


def corrected(interval: Interval, tests: int) -> tuple[float | None, float | None]:
    """Each end of an interval with the confidence, on its side, that so many together need (Bonferroni)."""
    if not interval.estimate or interval.spread is None or interval.degrees is None:
        return None, None
    reach = student_quantile(interval.degrees, 1 - (1 - CONFIDENCE) / max(1, tests)) * interval.spread
    return interval.estimate * math.exp(-reach), interval.estimate * math.exp(reach)
