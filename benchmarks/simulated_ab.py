"""Do the intervals hold what they promise? A thousand simulated A/Bs in each of several worlds whose truth is known.

Every A/B goes through the product's own path: a table of requests, pairs, units, interval, code. The truth is the
speed-up over the whole population of prompts, so an interval has to answer for other prompts like the measured ones.

    python benchmarks/simulated_ab.py [--runs 1000] [--seed 1] [--only WORLD] [--method bca]

States, world by world: how often the 95 % interval holds the truth (93 to 97 % is wanted), the mean error of the
estimate, the median width, and how often the verdict is FASTER, SLOWER or neither. Worlds without an effect are A/A
tests: about 5 % of their intervals may leave 1 out. `one after the other` is how not to measure: drift becomes an
effect there, and its coverage must be seen to fail. `--method bca` judges scipy's paired BCa bootstrap over the same
pairs or blocks instead of the product's interval.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trtspec.loadtest.costs import HEADLINE, PAIR_COSTS, pair_costs
from trtspec.loadtest.intervals import Interval
from trtspec.loadtest.pairing import Pairs, pair_rows
from trtspec.loadtest.records import ChunkRecord, Record
from trtspec.loadtest.sequential import MINIMUM_PAIRS, looks, width_reached
from trtspec.loadtest.speedups import headline
from trtspec.loadtest.table import Table, table_of
from trtspec.loadtest.units import units_of
from trtspec.loadtest.verdict import FASTER, SLOWER, level_code
from trtspec.spec.names import ARMS, BASELINE_ARM, SPECULATIVE, Arm

Floats = NDArray[np.float64]

MS = 1_000_000
FIRST_TOKEN, STEP = 60.0, 10.0  # ms
ACCEPTANCE, ACCEPTANCE_SPREAD = 2.6, 0.5  # tokens per round; of prompts


@dataclass(frozen=True)
class World:
    """How requests behave and how the test is made.

    `noise` is the standard deviation of a request's relative noise, `phi` its correlation with that of the request
    before, `drift` how much slower the machine is at the end, `stalls` the share of requests that a heavy-tailed stall
    hits, `block_noise` the noise that all requests of a block share, `until` the width at which the run stops itself,
    `repeats` how often every prompt is sent.
    """

    name: str
    speedup: float = 1.065
    prompts: int = 300
    concurrency: int = 1
    block: int = 1
    noise: float = 0.03
    phi: float = 0.0
    drift: float = 0.0
    stalls: float = 0.0
    block_noise: float = 0.0
    order: str = "ABBA"
    aa: bool = False
    until: float | None = None
    repeats: int = 1


_AT_8 = {"concurrency": 8, "block": 32, "noise": 0.05, "block_noise": 0.05}

WORLDS = (
    World("plain"),
    World("20 prompts", prompts=20),
    World("60 prompts", prompts=60),
    World("noise that lasts", noise=0.10, phi=0.4),
    World("noise that lasts long", noise=0.10, phi=0.95),
    World("heavy tails", stalls=0.02),
    World("heavy tails, 60 prompts", prompts=60, stalls=0.02),
    World("drift", drift=0.10),
    World("drift and lasting noise", drift=0.10, noise=0.10, phi=0.4, order="random"),
    World("blocks at concurrency 8", prompts=320, **_AT_8),  # type: ignore[arg-type]
    World("8 blocks at concurrency 8", prompts=256, **_AT_8),  # type: ignore[arg-type]
    World("blocks, drift, heavy tails", prompts=640, drift=0.10, stalls=0.02, **_AT_8),  # type: ignore[arg-type]
    World("stops by itself at 8 %", prompts=1000, until=0.08),
    World("stops by itself, heavy tails", prompts=1000, until=0.12, stalls=0.02),
    World("60 prompts, each 5 times", prompts=60, repeats=5),
    World("160 prompts, each twice in blocks", prompts=160, repeats=2, **_AT_8),  # type: ignore[arg-type]
    World("A/A", speedup=1.0, aa=True),
    World("A/A, lasting noise", speedup=1.0, aa=True, noise=0.10, phi=0.4),
    World("A/A, heavy tails, drift", speedup=1.0, aa=True, stalls=0.02, drift=0.10),
    World("A/A, blocks at concurrency 8", speedup=1.0, prompts=320, aa=True, **_AT_8),  # type: ignore[arg-type]
    World("one after the other", drift=0.10, order="A then B"),
)
WRONG_DESIGN = "one after the other"


@dataclass(frozen=True)
class Outcome:
    """One simulated A/B."""

    estimate: float
    low: float
    high: float
    code: str
    pairs: int


@dataclass(frozen=True)
class Verdict:
    """What many of them say."""

    world: str
    runs: int
    truth: float
    coverage: float
    bias: float
    width: float
    faster: float
    slower: float
    leaves_one_out: float
    pairs: float


class Simulation:
    """A world whose layout (who is sent when) is made once from real records; only times and tokens change."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._sent = list(_schedule(world))
        self._template = table_of(_record(world, *sent) for sent in self._sent)
        self._prompt = np.array([prompt for prompt, _, _ in self._sent])
        self._block = np.array([block for _, _, block in self._sent])
        self._speculative = np.array([arm == SPECULATIVE for _, arm, _ in self._sent])
        self._round = _round_cost(world.speedup)

    def table(self, rng: np.random.Generator) -> Table:
        """The requests of one A/B."""
        tokens = np.maximum(2, np.round(rng.lognormal(math.log(150), 0.6, self.world.prompts)))
        accepted = np.clip(rng.normal(ACCEPTANCE, ACCEPTANCE_SPREAD, self.world.prompts), 1.1, 6)
        if self.world.order == "random":
            self._shuffle(rng)
        work = tokens[self._prompt]
        fast = self._speculative & (not self.world.aa)
        per_token = np.where(fast, self._round / accepted[self._prompt], STEP)
        factor = self._factor(rng)
        first, whole = FIRST_TOKEN * factor, (FIRST_TOKEN + work * per_token) * factor
        return self._filled(work.astype(np.int64), first, whole)

    def _shuffle(self, rng: np.random.Generator) -> None:
        """AB or BA at random in every second block, the other way round in the next: balanced, and no pattern."""
        blocks = int(self._block.max()) + 1
        turned = np.repeat(rng.random((blocks + 1) // 2) < 0.5, 2)[:blocks] ^ (np.arange(blocks) % 2 == 1)
        size = len(self._sent) // blocks // 2
        self._speculative = np.repeat(np.stack([turned, ~turned], axis=1).ravel(), size)

    def _factor(self, rng: np.random.Generator) -> Floats:
        world, count = self.world, len(self._sent)
        noise = world.noise * _lasting(rng.normal(size=count), world.phi)
        shared = rng.normal(0, world.block_noise, 2 * (int(self._block.max()) + 1))
        noise += shared[2 * self._block + self._speculative]
        stall = np.where(rng.random(count) < world.stalls, rng.pareto(2.5, count), 0.0)
        drift = 1 + world.drift * np.arange(count) / count
        factor: Floats = np.exp(noise) * (1 + stall) * drift
        return factor

    def _filled(self, tokens: NDArray[np.int64], first: Floats, whole: Floats) -> Table:
        duration = np.round(whole * MS).astype(np.int64)
        start = np.cumsum(duration + MS) - duration
        first_ns, end = start + np.round(first * MS).astype(np.int64), start + duration
        return replace(
            self._template,
            arm=np.where(self._speculative, ARMS.index(SPECULATIVE), ARMS.index(BASELINE_ARM)),
            origin_ns=start,
            start_ns=start,
            end_ns=end,
            first_ns=first_ns,
            last_ns=end,
            active_end_ns=end,
            tokens=tokens,
            answer_tokens=tokens,
            tokens_after_first=tokens - 1,
        )

    def run(self, rng: np.random.Generator, method: Method) -> Outcome:
        """One A/B from its table to the verdict."""
        pairs = pair_rows(self.table(rng))
        if self.world.until is not None:
            pairs = pairs.select(np.arange(_stop(pairs.table, self.world.until)))
        found = method(pairs)
        assert found.estimate is not None, found.reason
        assert found.low is not None, found.reason
        assert found.high is not None, found.reason
        return Outcome(found.estimate, found.low, found.high, level_code(found), len(pairs))


def bca(pairs: Pairs) -> Interval:
    """What most tools would do: a paired BCa bootstrap over pairs or blocks."""
    from scipy.stats import bootstrap

    units = units_of(pairs)
    sums, _ = units.sums(pair_costs(pairs, PAIR_COSTS[HEADLINE]))

    def speedup(*columns: Floats, axis: int = -1) -> Any:
        totals = [column.sum(axis=axis) for column in columns]
        return totals[0] / totals[1] / (totals[2] / totals[3])

    found = bootstrap(tuple(sums.T), speedup, paired=True, method="BCa", n_resamples=1999, rng=1).confidence_interval
    return Interval(float(speedup(*sums.T)), float(found.low), float(found.high), len(pairs))


Method = Callable[[Pairs], Interval]
METHODS: dict[str, Method] = {"jackknife": headline, "bca": bca}


def _stop(table: Table, width: float) -> int:
    """How many pairs a run has when it stops itself."""
    for count in looks(len(table) // 2, MINIMUM_PAIRS):
        if width_reached(_first(table, 2 * count), width):
            return count
    return len(table) // 2


def _first(table: Table, rows: int) -> Table:
    """The table of the first requests."""
    changed: dict[str, Any] = {}
    for name in table.__dataclass_fields__:
        column = getattr(table, name)
        if isinstance(column, np.ndarray) and len(column) == len(table):
            changed[name] = column[:rows]
    return replace(table, **changed)


def _lasting(white: Floats, phi: float) -> Floats:
    from scipy.signal import lfilter

    if phi == 0:
        return white
    found: Floats = lfilter([math.sqrt(1 - phi * phi)], [1, -phi], white)
    return found


def _schedule(world: World) -> Iterable[tuple[int, Arm, int]]:
    """(prompt, arm, block) in the order of sending."""
    if world.order == "A then B":
        for arm in (BASELINE_ARM, SPECULATIVE):
            yield from ((prompt, arm, prompt // world.block) for prompt in range(world.prompts))
        return
    requests = world.prompts * world.repeats
    for block in range(math.ceil(requests / world.block)):
        members = range(block * world.block, min(requests, (block + 1) * world.block))
        for arm in ARMS if block % 2 else tuple(reversed(ARMS)):
            yield from ((request % world.prompts, arm, block) for request in members)


def _record(world: World, prompt: int, arm: Arm, block: int) -> Record:
    chunks = (ChunkRecord(1, "a", 1), ChunkRecord(2, "b", 1))
    name = f"p{prompt}"
    return Record(arm, name, 0, 2, chunks, concurrency=world.concurrency, pair_id=name, block=block, marked=True)


@lru_cache
def _round_cost(speedup: float) -> float:
    """The cost of a round (ms) that makes the speed-up over the whole population what it should be."""
    rng = np.random.default_rng(0)
    tokens = np.maximum(2, np.round(rng.lognormal(math.log(150), 0.6, 2_000_000))).mean()
    rounds = (1 / np.clip(rng.normal(ACCEPTANCE, ACCEPTANCE_SPREAD, 2_000_000), 1.1, 6)).mean()
    baseline = FIRST_TOKEN + STEP * tokens
    return float((baseline / speedup - FIRST_TOKEN) / (tokens * rounds))


def simulate(world: World, runs: int, seed: int, method: Method = headline) -> Verdict:
    """Many A/Bs of one world."""
    simulation = Simulation(world)
    rng = np.random.default_rng([seed, sum(map(ord, world.name))])
    return judge(world, [simulation.run(rng, method) for _ in range(runs)])


def judge(world: World, outcomes: Sequence[Outcome]) -> Verdict:
    """Shares over the outcomes."""

    def share(values: Iterable[bool]) -> float:
        return sum(values) / len(outcomes)

    truth = world.speedup
    return Verdict(
        world=world.name,
        runs=len(outcomes),
        truth=truth,
        coverage=share(one.low <= truth <= one.high for one in outcomes),
        bias=sum(one.estimate for one in outcomes) / len(outcomes) / truth - 1,
        width=float(np.median([(one.high - one.low) / one.estimate for one in outcomes])),
        faster=share(one.code == FASTER for one in outcomes),
        slower=share(one.code == SLOWER for one in outcomes),
        leaves_one_out=share(not one.low <= 1 <= one.high for one in outcomes),
        pairs=sum(one.pairs for one in outcomes) / len(outcomes),
    )


def line(verdict: Verdict) -> str:
    return (
        f"{verdict.world:32s} {verdict.truth:6.3f} {verdict.coverage:9.1%} {verdict.bias:+8.2%} {verdict.width:7.3f} "
        f"{verdict.faster:7.1%} {verdict.slower:7.1%} {verdict.leaves_one_out:10.1%} {verdict.pairs:7.0f}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="worlds whose name holds this")
    parser.add_argument("--method", choices=METHODS, default="jackknife")
    parser.add_argument("--json", action="store_true", help="one line of JSON a world")
    options = parser.parse_args()
    head = f"{'world':32s} {'truth':>6s} {'coverage':>9s} {'bias':>8s} {'width':>7s} {'FASTER':>7s} {'SLOWER':>7s}"
    if not options.json:
        print(f"{head} {'1 left out':>10s} {'pairs':>7s}")
    for world in WORLDS:
        if options.only is None or options.only in world.name:
            verdict = simulate(world, options.runs, options.seed, METHODS[options.method])
            print(json.dumps(asdict(verdict)) if options.json else line(verdict), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
