"""The order of everything a load test sends: levels, blocks and arms. Pure, and the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise

from trtspec.loadtest.arrivals import Traffic
from trtspec.loadtest.jobs import Job, Shape, chains, measured_jobs, nonce
from trtspec.loadtest.prompts import Prompt, warmup_prompts
from trtspec.spec.names import BASELINE_ARM, SPECULATIVE, Arm

__all__ = ["BLOCKS", "Block", "Job", "Level", "Shape", "few_blocks", "make_plan", "next_round", "total_requests"]

WARM_UP = "warm-up"
FILL = "fill"
# a level above concurrency 1 is cut into at least so many blocks, which its intervals are resampled over
BLOCKS = 8
# at a concurrency above 1 a block holds this many requests for each connection, if there are enough of them
_BLOCK_LENGTH = 4
# an open loop's blocks hold at least so many requests, and about so many seconds of traffic
_OPEN_REQUESTS = 4
_OPEN_SECONDS = 5.0
# an open loop goes through so many prompts again and again before and after what it measures
_PADDING = 64


@dataclass(frozen=True)
class Block:
    """Jobs that are sent to one arm and then, the same, to the other: `order` is (first arm, second arm).

    `lead_in` goes before the measured jobs without a pause between, `fill` (as long as needed) after them, so that
    measured requests meet the full load; neither is measured. `rates` are the requests/s of both in an open loop.
    """

    index: int
    order: tuple[Arm, Arm]
    jobs: tuple[Job, ...]
    lead_in: tuple[Job, ...]
    fill: tuple[Job, ...]
    rates: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class Level:
    """Blocks of one load level, of its first round or of a later one."""

    traffic: Traffic
    blocks: tuple[Block, ...]

    @property
    def concurrency(self) -> int:
        """What its records say as their concurrency."""
        return self.traffic.concurrency

    @property
    def label(self) -> str:
        """What its records say as their load."""
        return self.traffic.label

    @property
    def requests(self) -> int:
        """Measured requests of each arm."""
        return sum(len(block.jobs) for block in self.blocks)


def make_plan(prompts: Sequence[Prompt], shape: Shape, done: Collection[tuple[str, int]] = frozenset()) -> list[Level]:
    """The levels in the given order.

    The servers are warmed up before the first block; where blocks (load, index) are `done` already, before the first
    of the others.

    Each block goes to both arms one after the other. Of every two neighbouring blocks one begins with either arm
    (ABBA or BAAB, by lot), so that a machine that slowly gets slower or faster favours neither, and nor does one that
    changes in step with the blocks. At concurrency 1 a block is one prompt (or one session). Elsewhere there are at
    least `BLOCKS` blocks where the requests suffice for that, and an even number of them.
    """
    levels = [_Planner(prompts, shape, position).level() for position in range(len(shape.levels))]
    left = [(level.label, block.index) for level in levels for block in level.blocks]
    first = next((place for place in left if place not in done), None)
    return [
        _Planner(prompts, shape, position, cold=first).level() if first and first[0] == level.label else level
        for position, level in enumerate(levels)
    ]


def next_round(prompts: Sequence[Prompt], shape: Shape, place: tuple[int, int], first_block: int) -> Level:
    """Another round of a level, `place` being (its position, the round from 1): as many requests again.

    Its blocks are numbered from `first_block` on. There are none when the level's schedule has come to its end.
    """
    return _Planner(prompts, shape, *place, first_block).level()


def total_requests(levels: Iterable[Level]) -> int:
    """Measured requests of both arms."""
    return 2 * sum(level.requests for level in levels)


def few_blocks(level: Level) -> str | None:
    """What to know about a level with too few blocks for a sound interval; None for others."""
    traffic, blocks = level.traffic, len(level.blocks)
    if (traffic.closed and traffic.concurrency == 1) or blocks >= BLOCKS:
        return None
    needed = BLOCKS * (traffic.concurrency if traffic.closed else _OPEN_REQUESTS)
    return (
        f"{level.label}: {level.requests} requests make {blocks} blocks, an interval wants {BLOCKS} ({needed} requests)"
    )


@dataclass(frozen=True)
class _Planner:
    """Makes one round of the level at `position`; block `cold` (load, index) is the first that the servers meet."""

    prompts: Sequence[Prompt]
    shape: Shape
    position: int
    number: int = 0
    first_block: int = 0
    cold: tuple[str, int] | None = None

    @property
    def traffic(self) -> Traffic:
        return self.shape.levels[self.position]

    def level(self) -> Level:
        jobs = measured_jobs(self.prompts, self.shape, self.position, self.number)
        pieces = chains(jobs)
        used = {job.prompt.id for job in jobs}
        # a later turn makes no sense alone
        spare = [prompt for prompt in self.prompts if prompt.id not in used and not prompt.turn]
        blocks, begin = [], 0.0 if self.number == 0 or not jobs else jobs[0].at or 0.0
        for at, (start, end) in enumerate(pairwise(self._cuts(len(pieces), _seconds(jobs)))):
            # what has been measured already may be sent again; what is still to come must not meet a warm cache
            pool = chain(spare, (piece[0].prompt for piece in pieces[:start]))
            block = self._block(at, list(chain.from_iterable(pieces[start:end])), begin)
            begin = begin if self.traffic.closed else pieces[end - 1][0].at or 0.0
            blocks.append(self._padded(block, at, pool))
        return Level(self.traffic, tuple(blocks))

    def _cuts(self, count: int, seconds: float) -> list[int]:
        """Where blocks begin and end: 0 … count."""
        if count == 0:
            return [0]
        closed, connections = self.traffic.closed, self.traffic.concurrency
        if closed and connections == 1 and not self.shape.few_turns:
            return list(range(count + 1))
        least = connections if closed else _OPEN_REQUESTS
        usual = _BLOCK_LENGTH * least if closed else max(least, _OPEN_SECONDS * count / max(seconds, 1e-9))
        if closed and self.shape.few_turns:
            usual = count
        blocks = max(BLOCKS, _even(count / usual)) if count >= BLOCKS * least else max(2, 2 * (count // (2 * least)))
        blocks = min(blocks, count)
        return [round(index * count / blocks) for index in range(blocks + 1)]

    def _block(self, at: int, jobs: Sequence[Job], begin: float) -> Block:
        index = self.first_block + at
        lot = random.Random(f"{self.shape.seed}/order/{self.traffic.label}/{index // 2}")  # noqa: S311 - no secret
        baseline_first = (lot.random() < 0.5) != bool(index % 2)
        order: tuple[Arm, Arm] = (BASELINE_ARM, SPECULATIVE) if baseline_first else (SPECULATIVE, BASELINE_ARM)
        if self.traffic.closed:
            return Block(index, order, tuple(jobs), (), ())
        placed = tuple(replace(job, at=(job.at or 0.0) - begin) for job in jobs)
        rates = self.traffic.rate_at(begin), self.traffic.rate_at(jobs[-1].at or 0.0)
        return Block(index, order, placed, (), (), rates)

    def _padded(self, block: Block, at: int, pool: Iterable[Prompt]) -> Block:
        lead_in, fill = self._lead_in(at), self._fill
        if not lead_in and not fill:
            return block
        prompts = list(islice(pool, lead_in + fill)) or list(warmup_prompts())
        before = self._padding(WARM_UP, prompts, lead_in, block.index)
        if self.traffic.closed:
            before = _staggered(before, self.traffic.concurrency)
        after = self._padding(FILL, [*prompts[lead_in:], *prompts[:lead_in]], fill, block.index)
        return replace(block, lead_in=before, fill=after)

    def _padding(self, reason: str, prompts: Sequence[Prompt], count: int, block: int) -> tuple[Job, ...]:
        unique = self.shape.unique_prefixes
        jobs = []
        for index in range(count):
            prompt, pair = prompts[index % len(prompts)], f"{reason}-{index}"
            mark = nonce(self.shape.seed, self.traffic.label, block, pair) if unique else None
            limit = self.shape.max_tokens or prompt.max_tokens
            jobs.append(Job(prompt, pair, self.shape.seed, limit, reason, nonce=mark))
        return tuple(jobs)

    def _lead_in(self, at: int) -> int:
        if not self.traffic.closed:
            return _PADDING
        ramp = self.traffic.concurrency if self.traffic.concurrency > 1 else 0
        # where one server at a time runs, every turn meets one that has just been started
        first = (at, self.position, self.number) == (0, 0, 0)
        cold = first or self.shape.few_turns or self.cold == (self.traffic.label, self.first_block + at)
        return max(ramp, self.shape.warmup) if cold else ramp

    @property
    def _fill(self) -> int:
        if not self.traffic.closed:
            return _PADDING
        return 0 if self.traffic.concurrency == 1 else 2 * self.traffic.concurrency


def _seconds(jobs: Sequence[Job]) -> float:
    return max((job.at or 0.0 for job in jobs), default=0.0)


def _staggered(jobs: Sequence[Job], concurrency: int) -> tuple[Job, ...]:
    """The first job of every connection cut to a different length, so that connections do not march in step."""
    shares = [min(1.0, (index + 1) / concurrency) for index in range(len(jobs))]
    return tuple(
        replace(job, max_tokens=max(1, round(job.max_tokens * share))) for job, share in zip(jobs, shares, strict=True)
    )


def _even(number: float) -> int:
    return 2 * round(number / 2)
