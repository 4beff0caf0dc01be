"""The largest load at which an arm still meets the service levels, and how much more one arm carries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trtspec.loadtest.distribution import share
from trtspec.loadtest.goodput import met
from trtspec.loadtest.levels import LoadLevel, parse_level
from trtspec.loadtest.sample import Sample
from trtspec.loadtest.selection import Group
from trtspec.spec.names import ARMS, BASELINE_ARM, SPECULATIVE, Arm

__all__ = ["SHARE", "Attained", "attained", "capacity_section"]

# requests that must meet every service level
SHARE = 0.9
_NO_LEVELS = "no service levels were given"


@dataclass(frozen=True)
class Attained:
    """One arm at one level: hits of the attempts (failed ones met nothing), and requests per second."""

    level: LoadLevel
    hits: int | None
    attempts: int
    requests_per_second: float | None

    def to_json(self) -> dict[str, Any]:
        """Load and the share that met the levels with its Wilson interval."""
        return {
            "load": self.level.label,
            "kind": self.level.kind,
            "value": self.level.value,
            "requests_per_second": self.requests_per_second,
            "met": None if self.hits is None else share(self.hits, self.attempts),
        }

    def meets(self, wanted: float) -> bool:
        """True when at least `wanted` of the requests met every level."""
        return self.hits is not None and self.attempts > 0 and self.hits >= wanted * self.attempts


def attained(label: str, group: Group, levels: Mapping[str, float], rate: float | None) -> Attained:
    """What the requests of one arm and level attained; hits None where a service level cannot be judged."""
    sample = Sample(group.table, group.measured)
    good, level = met(sample, levels), parse_level(label)
    # what an open loop carries is what comes, whatever pauses lie between its requests
    carried = rate if level.closed or level.value is None else level.value
    return Attained(level, None if good is None else int(good.sum()), len(sample.rows) + len(group.failed), carried)


def capacity_section(
    found: Mapping[Arm, Sequence[Attained]], levels: Mapping[str, float], wanted: float = SHARE
) -> dict[str, Any]:
    """The `capacity` section. Levels of one kind (closed loop, or one kind of arrivals) form a ladder.

    An arm's capacity is the requests per second (a closed loop's finished ones, an open loop's arrivals) at the highest
    step up to which every step meets the service levels, and, where the next step does not, interpolated towards it by
    the share that met them. `ratio` is the speculative arm's over the baseline's on the same ladder.
    """
    if not levels:
        return {"slo": None, "share": wanted, "ladders": {}, "reason": _NO_LEVELS}
    kinds = sorted({one.level.kind for arm in ARMS for one in found.get(arm, ())})
    ladders = {kind: _ladder({arm: _of(found.get(arm, ()), kind) for arm in ARMS}, wanted) for kind in kinds}
    return {"slo": dict(levels), "share": wanted, "ladders": ladders, "reason": None}


def _of(steps: Sequence[Attained], kind: str) -> list[Attained]:
    chosen = [one for one in steps if one.level.kind == kind and one.level.value is not None]
    return sorted(chosen, key=lambda one: one.level.order)


def _ladder(arms: Mapping[Arm, Sequence[Attained]], wanted: float) -> dict[str, Any]:
    tops = {arm: _top(steps, wanted) for arm, steps in arms.items()}
    values = {arm: top["requests_per_second"] for arm, top in tops.items()}
    both = values[SPECULATIVE] and values[BASELINE_ARM]
    return {
        **{arm: {**tops[arm], "steps": [one.to_json() for one in arms[arm]]} for arm in ARMS},
        "ratio": values[SPECULATIVE] / values[BASELINE_ARM] if both else None,
        "ratio_is_bound": any(top["beyond"] for top in tops.values()),
    }


def _top(steps: Sequence[Attained], wanted: float) -> dict[str, Any]:
    """Capacity of one arm; `beyond`: it may lie above the largest measured load."""
    passed: list[Attained] = []
    for one in steps:
        if not one.meets(wanted):
            break
        passed.append(one)
    if not passed:
        reason = "not measured" if not steps else "cannot be judged" if steps[0].hits is None else None
        reason = (
            reason or f"fewer than {wanted:.0%} met the service levels at the smallest load ({steps[0].level.label})"
        )
        return {"value": None, "requests_per_second": None, "beyond": False, "reason": reason}
    after = steps[len(passed)] if len(passed) < len(steps) else None
    part = _part(passed[-1], after, wanted)
    return {
        "value": _between(passed[-1].level.value, after.level.value if after else None, part),
        "requests_per_second": _between(
            passed[-1].requests_per_second, after.requests_per_second if after else None, part
        ),
        "beyond": after is None,
        "reason": None if after else "the largest measured load still meets the service levels",
    }


def _part(last: Attained, after: Attained | None, wanted: float) -> float:
    """How far from `last` towards `after` the share falls to `wanted`."""
    if after is None or last.hits is None or after.hits is None or not after.attempts:
        return 0.0
    above, below = last.hits / last.attempts, after.hits / after.attempts
    return (above - wanted) / (above - below) if above > below else 0.0


def _between(low: float | None, high: float | None, part: float) -> float | None:
    if low is None or high is None:
        return low
    return low + part * max(0.0, high - low)
