"""From intervals to a sentence that a person can act on, and that says why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trtspec.loadtest.intervals import Interval
from trtspec.loadtest.levels import LoadLevel
from trtspec.spec.names import BASELINE_ARM, SPECULATIVE
from trtspec.units import bounds_text

__all__ = [
    "AA",
    "CLIENT_BOUND",
    "FASTER",
    "INCONCLUSIVE",
    "MIXED",
    "NEGLIGIBLE",
    "NO_DIFFERENCE",
    "SLOWER",
    "Level",
    "Subject",
    "level_code",
    "overall_code",
    "subject_of",
    "verdict_sentence",
]

FASTER = "FASTER"
SLOWER = "SLOWER"
NO_DIFFERENCE = "NO DIFFERENCE"
INCONCLUSIVE = "INCONCLUSIVE"
CLIENT_BOUND = "INCONCLUSIVE (client-bound)"
MIXED = "MIXED"
AA = "A/A"
# an interval inside 1 ± this is too small a difference to matter
NEGLIGIBLE = 0.05
_WORDS = {
    FASTER: "faster",
    SLOWER: "slower",
    NO_DIFFERENCE: "neither faster nor slower",
    INCONCLUSIVE: "not clearly faster or slower",
    CLIENT_BOUND: "not to be judged (client-bound)",
}


@dataclass(frozen=True)
class Level:
    """The headline speed-up at one load level; `why` says where it comes from.

    `client_bound` says why the load generator's own error forbids a verdict, `below_noise` why noise does.
    """

    load: LoadLevel
    speedup: Interval
    client_bound: str | None = None
    why: str | None = None
    below_noise: str | None = None

    @property
    def code(self) -> str:
        """What the interval says."""
        if self.client_bound:
            return CLIENT_BOUND
        found = level_code(self.speedup)
        return INCONCLUSIVE if self.below_noise and found in {FASTER, SLOWER} else found

    @property
    def reason(self) -> str | None:
        """What the verdict gives as its reason."""
        return self.client_bound or self.below_noise or self.why


def level_code(speedup: Interval) -> str:
    """NO DIFFERENCE: 1 lies in the interval and all of it within 5 % of 1. FASTER, SLOWER: it lies beside 1."""
    low, high = speedup.low, speedup.high
    if low is None or high is None:
        return INCONCLUSIVE
    if low <= 1 <= high and low >= 1 - NEGLIGIBLE and high <= 1 + NEGLIGIBLE:
        return NO_DIFFERENCE
    if low > 1:
        return FASTER
    return SLOWER if high < 1 else INCONCLUSIVE


def overall_code(levels: Sequence[Level]) -> str:
    """The code that all levels share, else an INCONCLUSIVE one when any is, else MIXED."""
    codes = {level.code for level in levels}
    if len(codes) == 1:
        return codes.pop()
    if not codes or INCONCLUSIVE in codes:
        return INCONCLUSIVE
    return CLIENT_BOUND if CLIENT_BOUND in codes else MIXED


@dataclass(frozen=True)
class Subject:
    """What is judged, and what to do about it: speculation, or the second of any two servers."""

    name: str = "Speculation"
    take: str = "leave it on"
    leave: str = "leave it off"


def subject_of(labels: Mapping[str, str]) -> Subject:
    """The words for two servers that were given names, arm → name; for the arms of a spec those of speculation."""
    first, second = labels.get(BASELINE_ARM), labels.get(SPECULATIVE)
    return Subject(second, f"take {second}", f"stay with {first}") if first and second else Subject()


def verdict_sentence(levels: Sequence[Level], subject: Subject | None = None) -> str:
    """Plain sentences: how fast at which load, what to do, and why."""
    if not levels:
        return "No comparison: no prompt was answered completely by both arms."
    subject = subject or Subject()
    text = _common_text(levels) or _joined([_level_text(level) for level in levels])
    return f"{subject.name} is {text}; {_advice(levels, subject)}.{_reasons(levels)}"


def _joined(parts: Sequence[str]) -> str:
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]


def _common_text(levels: Sequence[Level]) -> str | None:
    """What all levels say alike, said once, and each one's number; None where they differ or lack an interval."""
    if len(levels) == 1 or len({level.code for level in levels}) > 1:
        return None
    numbers: list[str] = []
    for level in levels:
        speedup = level.speedup
        if speedup.estimate is None or speedup.low is None or speedup.high is None:
            return None
        times, interval = ("times the baseline's speed", "95 % interval ") if not numbers else ("times", "")
        interval += bounds_text(speedup.low, speedup.high)
        numbers.append(f"{speedup.estimate:.2f} {times} ({interval}) at {level.load.label}")
    return f"{_WORDS[levels[0].code]} at {'both' if len(levels) == 2 else 'all'} loads: {_joined(numbers)}"


def _level_text(level: Level) -> str:
    speedup, at = level.speedup, f"at {level.load.label}"
    if speedup.estimate is None:
        return f"of unknown effect {at}"
    if speedup.low is None or speedup.high is None:
        return f"{speedup.estimate:.2f} times as fast {at} (too few pairs for an interval)"
    interval = f"95 % interval {bounds_text(speedup.low, speedup.high)}"
    word = {
        FASTER: f"{speedup.estimate:.2f} times faster",
        SLOWER: f"slower ({speedup.estimate:.2f} times the baseline's speed)",
        NO_DIFFERENCE: f"neither faster nor slower ({speedup.estimate:.2f} times)",
        CLIENT_BOUND: f"not to be judged ({speedup.estimate:.2f} times, client-bound)",
    }.get(level.code, f"not clearly faster or slower ({speedup.estimate:.2f} times)")
    return f"{word} {at} ({interval})" if "(" not in word else f"{word[:-1]}, {interval}) {at}"


def _advice(levels: Sequence[Level], subject: Subject) -> str:
    codes = [level.code for level in levels]
    first = levels[0].load
    where = "these loads" if len(levels) > 1 else first.label if first.closed else "this load"
    if all(code == FASTER for code in codes):
        return f"{subject.take} at {where}"
    if all(code in {SLOWER, NO_DIFFERENCE} for code in codes):
        return f"{subject.leave} at {where}"
    stop = next((index for index, code in enumerate(codes) if code != FASTER), 0)
    falls = stop > 0 and all(code in {SLOWER, NO_DIFFERENCE} for code in codes[stop:])
    if falls and len({level.load.kind for level in levels}) == 1:
        return f"{subject.take} below {levels[stop].load.label}"
    if INCONCLUSIVE in codes:
        return f"measure more requests at {levels[codes.index(INCONCLUSIVE)].load.label} before deciding"
    if CLIENT_BOUND in codes:
        return f"measure {levels[codes.index(CLIENT_BOUND)].load.label} with a less busy load generator before deciding"
    return "decide by the load that you serve"


def _reasons(levels: Sequence[Level]) -> str:
    """The first level's reason, and the last one's where it differs in code."""
    told = [levels[0]]
    if levels[-1].code != levels[0].code:
        told.append(levels[-1])
    texts = [(level, level.reason) for level in told]
    sentences = [_at(level, text, alone=len(levels) == 1) for level, text in texts if text]
    return "".join(f" {sentence}" for sentence in sentences)


def _at(level: Level, text: str, *, alone: bool) -> str:
    return f"{text[0].upper()}{text[1:]}." if alone else f"At {level.load.label} {text}."
