"""The README of an exported draft: where it comes from and what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trtspec.training.evaluate import Acceptance
from trtspec.units import count_text, duration_text

__all__ = ["CandidateLine", "CardFacts", "Measurement", "card"]


@dataclass(frozen=True)
class Measurement:
    """Acceptance at one draft length on one set of prompts: in total, per category, and per place in the round."""

    prompts: str
    draft_length: int
    answers: int
    total: Acceptance
    categories: Mapping[str, Acceptance]
    positions: Sequence[float | None] = ()

    def to_json(self) -> dict[str, Any]:
        """The figures; null where nothing was drafted."""
        return {
            "prompts": self.prompts,
            "draft_length": self.draft_length,
            "answers": self.answers,
            "mean_acceptance_length": self.total.mean_length,
            "acceptance_rate": self.total.rate,
            "by_category": {name: counts.rate for name, counts in self.categories.items()},
            "per_position": list(self.positions),
        }


@dataclass(frozen=True)
class CandidateLine:
    """One shape that was tried; milliseconds of a draft step, and the predicted speed-up at its best draft length."""

    name: str
    parameters: int
    mean_length: float | None
    draft_length: int
    draft_ms: float
    speedup: float
    chosen: bool


@dataclass(frozen=True)
class CardFacts:
    """What a draft's README says.

    ``seconds`` (answering, training) only where the run was limited by time; ``tuned`` is the model that it started
    from, None for one of its own or of the target's layers.
    """

    target: str
    shape: str
    parameters: int
    dtype: str
    how: str
    data: str
    answers: int
    tokens: int
    vocabulary: int
    seed: int
    training: str
    measurements: Sequence[Measurement]
    longest: int
    command: str
    seconds: tuple[float, float] | None = None
    candidates: Sequence[CandidateLine] = ()
    proposed: int | None = None
    device: str = "cpu"
    tuned: str | None = None


_TEXT = """\
# Draft for {target}

A small model that guesses the next tokens of {target}, for speculative decoding. It uses the same
tokenizer. It is no model to talk to. Made by `trtspec distill`; `distill.json` has the figures for programs.

* **Licence**: {licence}.
* **Shape**: {shape}, {parameters:.1f} million parameters, {dtype}.
* **Start**: {how}.
* **Data**: {answers} answers ({tokens} tokens) of the target to {data}.
  {vocabulary} different tokens occur; what concerns all others is as at the start.
* **Training**: {training}
* **Seed**: {seed}. {reproducible}

## Acceptance

Accepted / drafted tokens with greedy decoding, pooled over tokens, without the bonus token; mean
length is 1 + accepted / rounds. The draft was neither trained on these prompts nor chosen by them.
Expect less on prompts of another kind than those it was trained on.

{table}

By place in the round (share of the first, second, … drafted token that is accepted):

{positions}
{candidates}
## Limits

{proposed}It never saw more than {longest} tokens of context.

## Remake

    {command}
"""

_SAME = (
    "Limited by steps: the same command on the same machine with the same versions and number of\n"
    "  threads gives the same bytes."
)
_GPU = "Trained on a GPU, which adds in no fixed order: the same command does not give the same bytes."
_TIMED = "Limited by time (answering {0}, training {1}), so the same command\n  does not give the same bytes again."
_CHOSEN = "A choice by measured times: the same command may choose another shape."


def card(facts: CardFacts) -> str:
    """The README's text in Markdown."""
    fields = {name: getattr(facts, name) for name in CardFacts.__dataclass_fields__}
    licence = f"that of {facts.target}, whose answers it was trained on"
    fields |= {
        "licence": licence if facts.tuned is None else f"{licence}, and that of {facts.tuned}, which it started from",
        "parameters": facts.parameters / 1e6,
        "answers": count_text(facts.answers),
        "tokens": count_text(facts.tokens),
        "vocabulary": count_text(facts.vocabulary),
        "reproducible": _reproducible(facts),
        "table": _table(facts.measurements),
        "positions": _positions(facts.measurements),
        "candidates": _candidates(facts.candidates),
        "proposed": _proposed(facts.proposed),
    }
    return _TEXT.format(**fields)


def _reproducible(facts: CardFacts) -> str:
    if facts.seconds is not None:
        return _TIMED.format(*map(duration_text, facts.seconds))
    return _CHOSEN if facts.candidates else _SAME if facts.device == "cpu" else _GPU


def _table(measurements: Sequence[Measurement]) -> str:
    categories = list(dict.fromkeys(name for one in measurements for name in one.categories))
    rows = []
    for one in measurements:
        rates = [_rate(one.total.rate), *(_category(one.categories.get(name)) for name in categories)]
        mean = one.total.mean_length
        rows.append([one.prompts, str(one.answers), str(one.draft_length), f"{mean:.2f}" if mean else "–", *rates])
    return _markdown(["prompts", "answers", "draft length", "mean length", "all", *categories], rows)


def _positions(measurements: Sequence[Measurement]) -> str:
    longest = {one.prompts: one for one in sorted(measurements, key=lambda one: one.draft_length)}
    width = max((len(one.positions) for one in longest.values()), default=0)
    rows = []
    for one in longest.values():
        padded = [*one.positions, *[None] * (width - len(one.positions))]
        rows.append([one.prompts, *(_rate(value) for value in padded)])
    return _markdown(["prompts", *(str(place) for place in range(1, width + 1))], rows)


def _candidates(candidates: Sequence[CandidateLine]) -> str:
    if not candidates:
        return ""
    rows = [
        [
            f"**{one.name}**" if one.chosen else one.name,
            f"{one.parameters / 1e6:.1f}",
            "–" if one.mean_length is None else f"{one.mean_length:.2f}",
            str(one.draft_length),
            f"{one.draft_ms:.2f}",
            f"{one.speedup:.2f}",
        ]
        for one in candidates
    ]
    head = ["shape", "million parameters", "mean length", "at draft length", "draft step, ms", "predicted speed-up"]
    text = (
        "\n## Candidates\n\nTrained on the same data; chosen by the speed-up predicted from the acceptance on the\n"
        "prompts that stopped the training and from measured step costs (torch runtime, this machine, concurrency 1,\n"
        "without transport). Times differ from run to run, so a close choice may fall otherwise.\n\n"
    )
    return text + _markdown(head, rows) + "\n"


def _proposed(count: int | None) -> str:
    if count is None:
        return ""
    return (
        f"`draft_vocabulary.json` lets the torch runtime propose only the {count_text(count)} tokens most frequent in\n"
        "the training answers, which takes time off every draft step; a row of the table is for these, the others\n"
        "for all tokens. "
    )


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _category(counts: Acceptance | None) -> str:
    return _rate(None if counts is None else counts.rate)


def _rate(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
