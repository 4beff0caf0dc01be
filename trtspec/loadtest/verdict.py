"""From intervals to a sentence that a person can act on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from trtspec.loadtest.bootstrap import Interval

__all__ = ["Level", "break_even", "level_code", "overall_code", "verdict_sentence"]

FASTER = "FASTER"
SLOWER = "SLOWER"
NO_DIFFERENCE = "NO DIFFERENCE"
INCONCLUSIVE = "INCONCLUSIVE"
# an interval inside 1 ± this is too small a difference to matter
_NEGLIGIBLE = 0.05


@dataclass(frozen=True)
class Level:
    """The headline speed-up at one concurrency."""

    concurrency: int
    speedup: Interval

    @property
    def code(self) -> str:
        """What the interval says."""
        return level_code(self.speedup)


def level_code(speedup: Interval) -> str:
    """NO DIFFERENCE: 1 lies in the interval and all of it within 5 % of 1. FASTER, SLOWER: it lies beside 1."""
    low, high = speedup.low, speedup.high
    if low is None or high is None:
        return INCONCLUSIVE
    if low <= 1 <= high and low >= 1 - _NEGLIGIBLE and high <= 1 + _NEGLIGIBLE:
        return NO_DIFFERENCE
    if low > 1:
        return FASTER
    return SLOWER if high < 1 else INCONCLUSIVE


def overall_code(levels: Sequence[Level]) -> str:
    """The code that all levels share, else INCONCLUSIVE when any is, else MIXED."""
    codes = {level.code for level in levels}
    if len(codes) == 1:
        return codes.pop()
    return INCONCLUSIVE if INCONCLUSIVE in codes or not codes else "MIXED"


def break_even(levels: Sequence[Level]) -> tuple[float | None, str | None]:
    """The concurrency at which the speed-up becomes 1, or None and why.

    Interpolated between the two neighbouring measured concurrencies, linear in log2(concurrency) and log(speed-up).
    """
    points = [(level.concurrency, level.speedup.estimate) for level in levels if level.speedup.estimate]
    known = [(c, s) for c, s in points if s is not None]
    if len(known) < 2:
        return None, "needs at least two concurrencies"
    for (c0, s0), (c1, s1) in pairwise(known):
        if s0 >= 1 > s1:
            share = math.log(s0) / (math.log(s0) - math.log(s1))
            return float(2 ** (math.log2(c0) + share * (math.log2(c1) - math.log2(c0)))), None
    if all(s >= 1 for _, s in known):
        return None, f"speculation was not slower at any measured concurrency (up to {known[-1][0]})"
    if all(s < 1 for _, s in known):
        return None, f"speculation was not faster at any measured concurrency (from {known[0][0]})"
    return None, "the speed-up does not fall steadily with concurrency"


def verdict_sentence(levels: Sequence[Level]) -> str:
    """One or two plain sentences: how fast at which concurrency, and what to do."""
    if not levels:
        return "No comparison: no prompt was answered completely by both arms."
    parts = [_level_text(level) for level in levels]
    text = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]
    return f"Speculation is {text}; {_advice(levels)}."


def _level_text(level: Level) -> str:
    speedup, at = level.speedup, f"at concurrency {level.concurrency}"
    if speedup.estimate is None:
        return f"of unknown effect {at}"
    if speedup.low is None or speedup.high is None:
        return f"{speedup.estimate:.2f} times as fast {at} (too few pairs for an interval)"
    interval = f"95 % interval {speedup.low:.2f}–{speedup.high:.2f}"
    word = {
        FASTER: f"{speedup.estimate:.2f} times faster",
        SLOWER: f"slower ({speedup.estimate:.2f} times the baseline's speed)",
        NO_DIFFERENCE: f"neither faster nor slower ({speedup.estimate:.2f} times)",
    }.get(level.code, f"not clearly faster or slower ({speedup.estimate:.2f} times)")
    return f"{word} {at} ({interval})" if "(" not in word else f"{word[:-1]}, {interval}) {at}"


def _advice(levels: Sequence[Level]) -> str:
    codes = [level.code for level in levels]
    where = f"concurrency {levels[0].concurrency}" if len(levels) == 1 else "these concurrencies"
    if all(code == FASTER for code in codes):
        return f"leave it on at {where}"
    if all(code in {SLOWER, NO_DIFFERENCE} for code in codes):
        return f"leave it off at {where}"
    faster = codes.index(FASTER) if FASTER in codes else None
    if faster == 0:
        stop = next(index for index, code in enumerate(codes) if code != FASTER)
        if all(code in {SLOWER, NO_DIFFERENCE} for code in codes[stop:]):
            return f"leave it on below concurrency {levels[stop].concurrency}"
    if INCONCLUSIVE in codes:
        unclear = next(level.concurrency for level in levels if level.code == INCONCLUSIVE)
        return f"measure more requests at concurrency {unclear} before deciding"
    return "decide by the concurrency that you serve"
