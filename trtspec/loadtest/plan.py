"""The order of everything a load test sends: levels, blocks and arms. Pure, and the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from trtspec.loadtest.prompts import Prompt, draw, warmup_prompts
from trtspec.spec.names import BASELINE_ARM, SPECULATIVE, Arm

__all__ = ["Block", "Job", "Level", "Shape", "make_plan", "total_requests"]

WARM_UP = "warm-up"
FILL = "fill"
# at a concurrency above 1 a block holds this many requests for each connection
_BLOCK_LENGTH = 4


@dataclass(frozen=True)
class Job:
    """One request to be sent, in either arm."""

    prompt: Prompt
    pair_id: str
    seed: int
    max_tokens: int
    excluded: str | None = None


@dataclass(frozen=True)
class Block:
    """Jobs that are sent to one arm and then, the same, to the other: `order` is (first arm, second arm).

    `lead_in` goes before the measured jobs without a pause between, `fill` (as long as needed) after them, so that
    measured requests meet the full concurrency; neither is measured.
    """

    index: int
    order: tuple[Arm, Arm]
    jobs: tuple[Job, ...]
    lead_in: tuple[Job, ...]
    fill: tuple[Job, ...]


@dataclass(frozen=True)
class Level:
    """All blocks of one concurrency."""

    concurrency: int
    blocks: tuple[Block, ...]

    @property
    def requests(self) -> int:
        """Measured requests of each arm."""
        return sum(len(block.jobs) for block in self.blocks)


@dataclass(frozen=True)
class Shape:
    """What a plan is made from."""

    concurrency: tuple[int, ...]
    requests: int
    warmup: int
    seed: int
    max_tokens: int | None = None


def make_plan(prompts: Sequence[Prompt], shape: Shape) -> list[Level]:
    """The levels in the given order of concurrency.

    Each block goes to both arms one after the other, and the arm that goes first changes from block to block (ABBA),
    so that a machine that slowly gets slower or faster favours neither. At concurrency 1 a block is one prompt. At
    others it is some prompts a connection, and there is an even number of blocks.
    """
    return [_level(prompts, shape, position) for position in range(len(shape.concurrency))]


def total_requests(levels: Sequence[Level]) -> int:
    """Measured requests of both arms."""
    return 2 * sum(level.requests for level in levels)


def _level(prompts: Sequence[Prompt], shape: Shape, position: int) -> Level:
    concurrency = shape.concurrency[position]
    rng = random.Random(f"{shape.seed}/{concurrency}/{position}")  # noqa: S311 - reproducible order, no secret
    jobs = _jobs(draw(prompts, shape.requests, rng), shape)
    spare = [prompt for prompt in prompts if prompt.id not in {job.prompt.id for job in jobs}]
    cuts = _cuts(len(jobs), concurrency)
    blocks = []
    for index, (start, end) in enumerate(pairwise(cuts)):
        # what has been measured already may be sent again; what is still to come must not meet a warm cache
        pool = [*spare, *(job.prompt for job in jobs[:start])] or list(warmup_prompts())
        lead = _lead_in(shape, concurrency, first=index == 0, fresh=position == 0)
        blocks.append(_block(index, position, jobs[start:end], _Padding(pool, lead, concurrency, shape)))
    return Level(concurrency, tuple(blocks))


@dataclass(frozen=True)
class _Padding:
    pool: Sequence[Prompt]
    lead_in: int
    concurrency: int
    shape: Shape

    def jobs(self, reason: str, count: int) -> tuple[Job, ...]:
        offset = 0 if reason == WARM_UP else self.lead_in
        prompts = [self.pool[(offset + i) % len(self.pool)] for i in range(count)]
        jobs = [
            Job(prompt, f"{reason}-{i}", self.shape.seed, self.shape.max_tokens or prompt.max_tokens, reason)
            for i, prompt in enumerate(prompts)
        ]
        return tuple(jobs)


def _block(index: int, position: int, jobs: Sequence[Job], padding: _Padding) -> Block:
    order: tuple[Arm, Arm] = (SPECULATIVE, BASELINE_ARM)
    if (index + position) % 2:
        order = (BASELINE_ARM, SPECULATIVE)
    lead_in = padding.jobs(WARM_UP, padding.lead_in)
    fill = padding.jobs(FILL, 0 if padding.concurrency == 1 else 2 * padding.concurrency)
    return Block(index, order, tuple(jobs), _staggered(lead_in, padding.concurrency), fill)


def _staggered(jobs: Sequence[Job], concurrency: int) -> tuple[Job, ...]:
    """The first job of every connection cut to a different length, so that connections do not march in step."""
    shares = [min(1.0, (index + 1) / concurrency) for index in range(len(jobs))]
    return tuple(
        replace(job, max_tokens=max(1, round(job.max_tokens * share))) for job, share in zip(jobs, shares, strict=True)
    )


def _lead_in(shape: Shape, concurrency: int, *, first: bool, fresh: bool) -> int:
    ramp = concurrency if concurrency > 1 else 0
    return max(ramp, shape.warmup) if first and fresh else ramp


def _jobs(prompts: Sequence[Prompt], shape: Shape) -> list[Job]:
    times: dict[str, int] = {}
    jobs = []
    for index, prompt in enumerate(prompts):
        times[prompt.id] = times.get(prompt.id, 0) + 1
        again = "" if times[prompt.id] == 1 else f"~{times[prompt.id]}"
        limit = shape.max_tokens or prompt.max_tokens
        jobs.append(Job(prompt, f"{prompt.id}{again}", shape.seed * 1_000_003 + index, limit))
    return jobs


def _cuts(count: int, concurrency: int) -> list[int]:
    """Where blocks begin and end: 0 … count."""
    if concurrency == 1:
        return list(range(count + 1))
    blocks = max(2, 2 * round(count / (2 * _BLOCK_LENGTH * concurrency)))
    blocks = min(blocks, count)
    return [round(index * count / blocks) for index in range(blocks + 1)]
