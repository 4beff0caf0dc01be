"""The whole way from a target to an exported draft, resumable after every stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trtspec.training.card import Measurement, Summary, card
from trtspec.training.generate import Answer, GenerationSettings
from trtspec.training.model import DraftShape
from trtspec.training.train import Progress, TrainingSettings

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

    from trtspec.training.copying import CopyingStart


__all__ = ["Distillation", "distil"]

GENERATION_SHARE = 0.65
DRAFT_LENGTHS = (3, 4, 5)
PROPOSED_TOKENS = 8192  # the most frequent ones; the others are seldom guessed, and their rows cost most of a pass

Report = Callable[[str], None]


@dataclass(frozen=True)
class Distillation:
    """What to distil, from where to where, and within which limits.

    ``data`` keeps the target's answers: a second run with more ``tokens`` or another ``shape``
    goes on from them.  ``unseen`` holds further prompts to measure with, by category, each with
    its limit of new tokens; they are never trained on.
    """

    target: Path
    out: Path
    data: Path
    tokens: int = 600_000
    minutes: float = 120
    prompts: int = 24_000
    shape: DraftShape = field(default_factory=DraftShape)
    generation: GenerationSettings = field(default_factory=GenerationSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    unseen: Sequence[tuple[str, str, int]] = ()


def distil(plan: Distillation, report: Report) -> Summary:
    """Generate, train, measure and export; returns what the draft's README says."""
    started = time.monotonic()
    _generate(plan, started + 60 * plan.minutes * GENERATION_SHARE, report)
    generated = time.monotonic()
    left = 60 * plan.minutes - (generated - started)
    draft, facts = _train(plan, max(60.0, left), report)
    facts["generation_seconds"] = generated - started
    frequent = facts.pop("frequent")
    measured = {"held-out prompts": facts.pop("held_out")}
    if plan.unseen:
        measured["load-test prompts"] = _unseen_answers(plan)
    summary = Summary(
        shape=plan.shape,
        seed=plan.training.seed,
        measurements=_measure(draft, measured),
        **facts,
    )
    _export(draft, plan, summary, frequent)
    return summary


def _decoder(target: Path) -> Any:
    import torch
    from transformers import LlamaForCausalLM

    from trtspec.training.decoder import Decoder

    return Decoder(LlamaForCausalLM.from_pretrained(str(target), dtype=torch.float32))


def _tokenizer(target: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(target))


def _generate(plan: Distillation, deadline: float, report: Report) -> None:
    from trtspec.training.collect import collect
    from trtspec.training.shards import read_shards

    have = sum(len(answer.tokens) for answer in read_shards(plan.data))
    report(f"{have} tokens of answers on disk, {plan.tokens} wanted")
    if have >= plan.tokens:
        return
    new = collect(plan.data, _decoder(plan.target), _tokenizer(plan.target), plan.prompts, plan.generation)
    for count in new:
        have += count
        report(f"{have} tokens generated")
        if have >= plan.tokens or time.monotonic() > deadline:
            return


def _train(plan: Distillation, seconds: float, report: Report) -> tuple[LlamaForCausalLM, dict[str, Any]]:
    import torch
    from transformers import AutoConfig

    from trtspec.training.copying import set_up_copying
    from trtspec.training.data import Vocabulary, split_held_out
    from trtspec.training.export import whole_vocabulary
    from trtspec.training.model import draft_config, new_draft
    from trtspec.training.shards import read_shards
    from trtspec.training.train import train

    torch.manual_seed(plan.training.seed)
    target: Any = AutoConfig.from_pretrained(str(plan.target))
    taught, held_out = split_held_out(without(read_shards(plan.data), _unseen_ids(plan)))
    vocabulary = Vocabulary.of(taught, target.vocab_size)
    start = _start(plan, taught, target.bos_token_id)
    draft = new_draft(draft_config(plan.shape, target, len(vocabulary)), start.embedding[vocabulary.ids])
    set_up_copying(draft, start)
    settings = replace(plan.training, seconds=seconds)

    def tell(now: Progress) -> None:
        report(f"epoch {now.epoch:.1f}: loss {now.loss:.3f}, held-out acceptance {now.rate:.3f}")

    began = time.monotonic()
    best = train(draft, (taught, held_out), vocabulary, settings, tell)
    facts = {
        "tokens": sum(len(answer.tokens) for answer in taught),
        "answers": len(taught),
        "vocabulary": len(vocabulary),
        "frequent": vocabulary.ids[:PROPOSED_TOKENS].tolist(),
        "training_seconds": time.monotonic() - began,
        "best": best,
        "held_out": held_out,
    }
    return whole_vocabulary(draft, vocabulary, start.embedding, target), facts


def without(answers: Any, prompts: set[tuple[int, ...]]) -> list[Answer]:
    """The answers whose prompt is none of ``prompts``."""
    return [answer for answer in answers if answer.job.prompt not in prompts]


def _start(plan: Distillation, answers: Sequence[Answer], empty: int) -> CopyingStart:
    """A start from the target's embedding, with the tokens of the answers in mind."""
    import torch
    from safetensors import safe_open

    from trtspec.training.copying import copying_start

    with safe_open(str(plan.target / "model.safetensors"), framework="pt") as file:
        embedding = file.get_tensor("model.embed_tokens.weight").float()
    counts = torch.full((len(embedding),), 0.05)
    for answer in answers:
        tokens = torch.from_numpy(answer.tokens)
        counts.index_add_(0, tokens, torch.ones(len(tokens)))
    # The square root keeps a few very frequent tokens from claiming all directions.
    return copying_start(embedding, plan.shape, counts.sqrt(), empty)


def _unseen_ids(plan: Distillation) -> set[tuple[int, ...]]:
    from trtspec.training.collect import chat_ids

    tokenizer = _tokenizer(plan.target)
    return {chat_ids(tokenizer, text) for _, text, _ in plan.unseen}


def _unseen_answers(plan: Distillation) -> list[Answer]:
    """The target's greedy answers to ``plan.unseen``, cut where each prompt's limit says."""
    from trtspec.training.collect import chat_ids
    from trtspec.training.generate import Job, generate

    tokenizer = _tokenizer(plan.target)
    jobs = [Job(i, category, chat_ids(tokenizer, text)) for i, (category, text, _) in enumerate(plan.unseen)]
    limits = [limit for _, _, limit in plan.unseen]
    settings = replace(plan.generation, max_new_tokens=max(limits), rows=min(len(jobs), plan.generation.rows))
    answers = generate(_decoder(plan.target), jobs, settings)
    return [cut(answer, limits[answer.job.index]) for answer in answers]


def cut(answer: Answer, limit: int) -> Answer:
    """The answer's first ``limit`` tokens."""
    return Answer(answer.job, answer.tokens[:limit], answer.top_ids[:limit], answer.top_logprobs[:limit])


def _measure(draft: LlamaForCausalLM, sets: Mapping[str, Sequence[Answer]]) -> list[Measurement]:
    from trtspec.training.evaluate import acceptance, by_category, draft_matches

    measurements = []
    for name, answers in sets.items():
        matches = draft_matches(draft, answers)
        for length in DRAFT_LENGTHS:
            counts = by_category(answers, matches, length)
            total = acceptance(matches, length)
            measurements.append(Measurement(name, length, len(answers), total, counts))
    return measurements


def _export(draft: LlamaForCausalLM, plan: Distillation, summary: Summary, frequent: Sequence[int]) -> None:
    from trtspec.training.export import export_draft

    export_draft(draft, plan.target, plan.out, card(summary), frequent)
