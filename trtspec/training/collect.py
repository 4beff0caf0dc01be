"""The training data of a draft: prompts in the target's chat format, answered by the target."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from trtspec.training.decoder import Decoder
from trtspec.training.generate import GenerationSettings, Job, generate
from trtspec.training.prompts import Prompt, make_prompts
from trtspec.training.shards import finished, write_shards

__all__ = ["chat_ids", "collect", "make_jobs"]

LONGEST_PROMPT = 280
SORTED_TOGETHER = 480


def chat_ids(tokenizer: Any, text: str) -> tuple[int, ...]:
    """Token ids of one user message in the chat format, ready for the answer."""
    turns = [{"role": "user", "content": text}]
    given = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
    return tuple(tokenizer(given, add_special_tokens=False)["input_ids"])


def make_jobs(tokenizer: Any, prompts: Sequence[Prompt], seed: int) -> list[Job]:
    """One job per prompt that is not too long.

    Serving is greedy, so three answers in five are; the others start with a few sampled tokens or
    are sampled throughout, which shows the draft more of the target's language.
    """
    jobs = []
    for index, prompt in enumerate(prompts):
        ids = chat_ids(tokenizer, prompt.text)
        if len(ids) <= LONGEST_PROMPT:
            jobs.append(_with_sampling(Job(index, prompt.category, ids), seed))
    return jobs


def _with_sampling(job: Job, seed: int) -> Job:
    draw = random.Random(seed * 1_000_003 + job.index).random()  # noqa: S311 - reproducible
    if draw < 0.6:
        return job
    if draw < 0.85:
        return replace(job, sampled=4, temperature=1.0)
    return replace(job, sampled=10_000, temperature=0.8)


def collect(folder: Path, decoder: Decoder, tokenizer: Any, count: int, settings: GenerationSettings) -> Iterator[int]:
    """Answer ``count`` prompts into shards of ``folder``; yields the tokens of every new shard.

    What an earlier call wrote is kept, and its prompts are not answered again.
    """
    jobs = make_jobs(tokenizer, make_prompts(count, settings.seed), settings.seed)
    done = finished(folder)
    waiting = list(_by_length(job for job in jobs if job.index not in done))
    yield from write_shards(folder, generate(decoder, waiting, settings))


def _by_length(jobs: Iterable[Job]) -> Iterator[Job]:
    """Sorted by prompt length in blocks: rows of like length waste little attention on padding."""
    remaining = iter(jobs)
    while block := list(islice(remaining, SORTED_TOGETHER)):
        yield from sorted(block, key=lambda job: len(job.prompt))
