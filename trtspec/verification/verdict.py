"""What a verification found, in one word and one sentence. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trtspec.loadtest.divergence import LOGIC_FAULT, NOT_EXAMINED
from trtspec.spec.names import BASELINE_ARM, SPECULATIVE
from trtspec.verification.greedy import NEAR_TIE, NOT_REPRODUCED

__all__ = ["CODES", "Verdict", "judge"]

CODES = ("IDENTICAL", "NEAR-TIES", "SAME", "UNEXPLAINED", "LOGIC FAULT", "DIFFERENT", "INCONCLUSIVE")
_FAILS = {"LOGIC FAULT", "DIFFERENT"}
_HARMLESS = {"IDENTICAL", "NEAR-TIES", "SAME"}


@dataclass(frozen=True)
class Verdict:
    """A code of `CODES`, the sentence that says why, and whether the command fails."""

    code: str
    sentence: str
    failed: bool


def judge(
    equality: Mapping[str, Any] | None,
    distribution: Mapping[str, Any] | None,
    tasks: Mapping[str, Any] | None,
    *,
    strict: bool = False,
) -> Verdict:
    """The verdict over the sections that there are; `strict`: what is not shown to be harmless fails too."""
    found = [
        *([_equality(equality)] if equality is not None else []),
        *([_distribution(distribution)] if distribution is not None else []),
        *([_tasks(tasks)] if tasks is not None else []),
    ]
    code, _ = max(found, key=lambda one: CODES.index(one[0]))
    failed = code in _FAILS or (strict and code not in _HARMLESS)
    return Verdict(code, " ".join(sentence for _, sentence in found), failed)


def _equality(section: Mapping[str, Any]) -> tuple[str, str]:
    compared, diverged, verdicts = section["compared"], section["diverged"], section["verdicts"]
    if not compared:
        return "INCONCLUSIVE", "No prompt was answered by both arms."
    if not diverged:
        return "IDENTICAL", f"All {compared} greedy answers are the same in both arms."
    count = f"{diverged} of {compared} greedy answers differ"
    if faults := verdicts[LOGIC_FAULT]:
        return "LOGIC FAULT", f"{count}; in {faults} the target's choice was clear: speculation is wrong."
    if verdicts[NEAR_TIE] == diverged:
        return "NEAR-TIES", f"{count}, all where two tokens score alike: rounding, not a fault."
    parts = [f"{verdicts[kind]} {kind}" for kind in (NOT_REPRODUCED, NOT_EXAMINED) if verdicts[kind]]
    return "UNEXPLAINED", f"{count}; {' and '.join(parts)}: nothing shows that they are harmless."


def _distribution(section: Mapping[str, Any]) -> tuple[str, str]:
    pooled, samples = section["pooled"], section["samples"]
    if not samples or pooled["total_variation"] is None:
        return "INCONCLUSIVE", "No samples came from both arms."
    if section["rejected"]:
        worst = [prompt["prompt_id"] for prompt in section["prompts"] if prompt["rejected"]]
        where = f" ({', '.join(worst[:3])})" if worst else ""
        return "DIFFERENT", (
            f"{samples} samples are not of one distribution{where}: chance would show this in fewer than "
            f"{section['significance']:.2%} of such tests."
        )
    if pooled["degrees"] == 0:
        return "INCONCLUSIVE", "Every sample was the same: a higher temperature or more tokens would tell something."
    seen = pooled["detectable"]
    power = (
        "too few samples to see anything"
        if seen is None
        else f"a distance of {seen:.2f} in every prompt would have been seen with {section['power']:.0%} probability"
    )
    return "SAME", f"{samples} samples show no difference between the arms' distributions; {power}."


def _tasks(section: Mapping[str, Any]) -> tuple[str, str]:
    right, count = section["right"], section["tasks"]
    if not count:
        return "INCONCLUSIVE", "No task was answered by both arms."
    scores = f"{right[SPECULATIVE]} of {count} tasks right, {right[BASELINE_ARM]} without speculation"
    if section["rejected"]:
        return "DIFFERENT", f"{scores}: more than chance (McNemar p = {section['p']:.2g})."
    return "SAME", f"{scores}: no more than chance (McNemar p = {section['p']:.2g})."
