"""What is sent when: the blocks of every rung, and the order of candidates within a block. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trtspec.loadtest.arrivals import Traffic, closed_loop
from trtspec.loadtest.jobs import Job, Shape, nonce
from trtspec.loadtest.plan import Block, next_round
from trtspec.loadtest.prompts import Prompt, draw
from trtspec.loadtest.records import concurrency_label
from trtspec.tuning.options import BASELINE, TuneOptions

__all__ = ["CONFIRM", "LevelPlan", "order_of", "split_prompts"]

# blocks of the confirmation are numbered from here on
CONFIRM = 1_000_000
# prompts of a round at concurrency 1, and for each connection above it
_ALONE = 8
_PER_CONNECTION = 4
# of the prompts are kept for the confirmation
_HELD_OUT = 1 / 3


def split_prompts(prompts: Sequence[Prompt], seed: int) -> tuple[list[Prompt], list[Prompt]]:
    """Prompts of the search and those of the confirmation, which the search never sees; categories even in both.

    Too few prompts to divide (less than 3) are used for both.
    """
    alone = [prompt for prompt in prompts if not prompt.turn]
    if len(alone) < 3:
        return alone, alone
    rng = random.Random(f"{seed}/split")  # noqa: S311 - order, no secret
    shuffled = draw(alone, len(alone), rng)
    held = max(1, round(len(shuffled) * _HELD_OUT))
    return shuffled[held:], shuffled[:held]


def order_of(candidates: Sequence[str], block: int, seed: int, *, at_end: bool) -> tuple[str, ...]:
    """The baseline and the candidates in the order in which they answer a block.

    By lot; every second block has the order of the one before reversed, so that a machine that slowly gets slower or
    faster favours nobody. `at_end`: the baseline is first or last, where going to its server takes long.
    """
    rng = random.Random(f"{seed}/order/{block // 2}")  # noqa: S311 - order, no secret
    order = list(candidates)
    rng.shuffle(order)
    order.insert(0 if at_end else rng.randint(0, len(order)), BASELINE)
    return tuple(reversed(order)) if block % 2 else tuple(order)


@dataclass(frozen=True)
class LevelPlan:
    """The blocks of one concurrency, round after round."""

    concurrency: int
    prompts: tuple[Prompt, ...]
    options: TuneOptions
    base: int = 0

    @property
    def label(self) -> str:
        """What its records say as their load."""
        return concurrency_label(self.concurrency)

    @property
    def traffic(self) -> Traffic:
        """A closed loop."""
        return closed_loop(self.concurrency)

    def round(self, number: int) -> tuple[Block, ...]:
        """The blocks of round 0, 1, 2, …; prompts come again only when all have been used."""
        blocks = next_round(self.prompts, self._shape, (0, number), 0).blocks
        first = self.base + number * len(blocks)
        return tuple(replace(block, index=first + place) for place, block in enumerate(blocks))

    @property
    def _shape(self) -> Shape:
        load = self.options.load
        requests = _ALONE if self.concurrency == 1 else _PER_CONNECTION * self.concurrency
        return Shape((self.concurrency,), requests, load.warmup, load.seed, load.max_tokens)

    def for_candidate(self, block: Block, candidate: str) -> Block:
        """The block's jobs with beginnings of their own.

        The candidates share one server: without that, all but the first would find their prompt in its cache.
        """

        def own(jobs: tuple[Job, ...]) -> tuple[Job, ...]:
            key = (self.options.load.seed, self.label, block.index, candidate)
            return tuple(replace(job, nonce=nonce(*key, job.pair_id)) for job in jobs)

        return replace(block, jobs=own(block.jobs), lead_in=own(block.lead_in), fill=own(block.fill))
