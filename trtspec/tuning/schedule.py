"""From the best length at each load to what the spec should say. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Gain", "Recommendation", "best_lengths", "recommend"]

# {draft length: how many times faster it is at least}, one for each measured load
Gain = Mapping[int, float]


@dataclass(frozen=True)
class Recommendation:
    """What to write into the spec's `speculation` section (None: speculation does not pay), and why."""

    values: Mapping[str, Any] | None
    sentence: str

    @property
    def schedule(self) -> Mapping[int, int]:
        """{running requests up to: draft length}; empty for one length at all loads."""
        found: Mapping[int, int] = (self.values or {}).get("schedule", {})
        return found


def best_lengths(gains: Sequence[Gain]) -> list[int]:
    """The length for each load in ascending order, 0 for none, never longer at a higher load.

    Of all such sequences the one with the largest product of gains (0 has a gain of 1); of equal ones the shortest
    drafts. By dynamic programming over the lengths that occur.
    """
    lengths = sorted({0, *(length for gain in gains for length in gain)})
    # best[length]: (value, sequence) of the loads so far, when the last one has this length
    best: dict[int, tuple[float, list[int]]] = {length: (0.0, []) for length in lengths}
    for gain in gains:
        step: dict[int, tuple[float, list[int]]] = {}
        for length in lengths:
            own = 0.0 if length == 0 else math.log(gain[length]) if gain.get(length, 0) > 0 else -math.inf
            before = max((best[longer] for longer in lengths if longer >= length), key=lambda one: one[0])
            step[length] = (before[0] + own, [*before[1], length])
        best = step
    return max((best[length] for length in lengths), key=lambda one: one[0])[1]


def recommend(levels: Sequence[int], lengths: Sequence[int]) -> Recommendation:
    """The spec's values for the best `length` at each concurrency of `levels`.

    A schedule holds between the measured loads by the next higher one, and beyond the last one nothing is drafted:
    nobody measured there. One length at every load is a fixed one.
    """
    if not any(lengths):
        return Recommendation(None, "No draft length is shown to pay at any load: serve the baseline.")
    own = {"draft_length": max(lengths)}
    if len(set(lengths)) == 1:
        sentence = f"Draft length {lengths[0]} at every measured load (concurrency {_listed(levels)})."
        return Recommendation({"policy": "fixed", **own}, sentence)
    steps: dict[int, int] = {}
    for index, (level, length) in enumerate(zip(levels, lengths, strict=True)):
        last = index + 1 == len(levels) or lengths[index + 1] != length
        if last and length:
            steps[level] = length
    parts = [f"{length} up to {level} running requests" for level, length in steps.items()]
    return Recommendation(
        {"policy": "schedule", **own, "schedule": steps}, f"Draft length {', '.join(parts)}, none beyond."
    )


def _listed(levels: Sequence[int]) -> str:
    return ", ".join(map(str, levels))
