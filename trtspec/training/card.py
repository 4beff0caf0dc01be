"""The README of an exported draft: where it comes from and what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trtspec.training.evaluate import Acceptance
from trtspec.training.model import DraftShape
from trtspec.training.train import Progress

__all__ = ["Measurement", "Summary", "card"]


@dataclass(frozen=True)
class Measurement:
    """Acceptance at one draft length on one set of prompts, in total and per category."""

    prompts: str
    draft_length: int
    answers: int
    total: Acceptance
    categories: Mapping[str, Acceptance]


@dataclass(frozen=True)
class Summary:
    """What a distillation used and found; times in seconds.

    ``note`` tells what a run did otherwise than the README's text says.
    """

    shape: DraftShape
    seed: int
    tokens: int
    answers: int
    vocabulary: int
    generation_seconds: float
    training_seconds: float
    best: Progress
    measurements: Sequence[Measurement]
    note: str = ""


_TEXT = """\
# Draft for SmolLM2-135M-Instruct

A small Llama that guesses the next tokens of SmolLM2-135M-Instruct, for speculative decoding. It
uses the same tokenizer. It is no model to talk to.

* **Licence**: Apache-2.0, as the target, whose answers it was trained on.
* **Shape**: hidden {shape.hidden}, {shape.layers} layers, {shape.heads} heads ({shape.kv_heads} key/value),
  intermediate {shape.intermediate}, tied embeddings, {parameters:.1f} million parameters, float16.
* **Data**: {answers} answers ({tokens} tokens) of the target to prompts put together from templates
  (`trtspec/training/prompts.py`, seed {seed}): three in five greedy, the others with sampled tokens.
  {vocabulary} different tokens occur; the embedding rows of all others are as initialised.
* **Start**: the embedding is the target's, reduced to its main directions; the first two layers
  are set up to copy what followed the last two tokens before (`trtspec/training/copying.py`).
* **Training**: half cross entropy with the target's best token, half with its 20 best
  probabilities; AdamW. Kept is the state with the best greedy acceptance on held-out prompts:
  after {best.epoch:.1f} passes, loss {best.loss:.3f}, {match:.1f} % of the held-out tokens guessed.
* **Time**: generation {generation_minutes:.0f} minutes, training {training_minutes:.0f} minutes on CPU.{note}

## Acceptance

Accepted / drafted tokens with greedy decoding, pooled over tokens, without the bonus token; mean
length is 1 + accepted / rounds. The draft saw none of these prompts. The held-out prompts come
from the same templates as the training prompts with other words in them, so expect less on
prompts of your own{also}.

{table}

## Limits

It never saw more than 430 tokens of context, any language but English, or more than one turn.

## Remake

    scripts/make-demo-draft --out OUT --tokens {wanted} --budget MINUTES
"""


def card(summary: Summary) -> str:
    """The README's text in Markdown."""
    sets = {one.prompts for one in summary.measurements}
    fields = {name: getattr(summary, name) for name in Summary.__dataclass_fields__}
    fields["note"] = f"\n  {summary.note}" if summary.note else ""
    return _TEXT.format(
        **fields,
        generation_minutes=summary.generation_seconds / 60,
        training_minutes=summary.training_seconds / 60,
        parameters=summary.shape.parameters(49_152) / 1e6,
        match=100 * summary.best.match,
        table=_table(summary.measurements),
        wanted=round(summary.tokens, -4),
        also="; the load test's prompts are such" if len(sets) > 1 else "",
    )


def _table(measurements: Sequence[Measurement]) -> str:
    categories = list(dict.fromkeys(name for one in measurements for name in one.categories))
    head = ["prompts", "answers", "draft length", "mean length", "all", *categories]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for one in measurements:
        rates = [_rate(one.total), *(_rate(one.categories.get(name)) for name in categories)]
        mean = one.total.mean_length
        cells = [one.prompts, str(one.answers), str(one.draft_length), f"{mean:.2f}" if mean else "–", *rates]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _rate(counts: Acceptance | None) -> str:
    return "–" if counts is None or counts.rate is None else f"{counts.rate:.2f}"
