"""Time over work of a pair (or of a block of pairs), for every metric that a speed-up is given of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from trtspec.loadtest.bootstrap import Cost
from trtspec.loadtest.pairing import Pair
from trtspec.loadtest.records import Record
from trtspec.loadtest.throughput import measure_load
from trtspec.loadtest.timeline import timeline

__all__ = ["HEADLINE", "PAIR_COSTS", "pair_costs", "throughput_costs"]

# the metric that verdicts rest on: what a user waits for, freed of answers' lengths
HEADLINE = "latency_per_token"

# record → (time, work), None where it was not measured
Measure = Callable[[Record], "tuple[float, float] | None"]


def _latency(record: Record) -> tuple[float, float] | None:
    line = timeline(record)
    return (float(line.last_ns - line.origin_ns), 1.0) if line else None


def _latency_per_token(record: Record) -> tuple[float, float] | None:
    line = timeline(record)
    return (float(line.last_ns - line.origin_ns), float(line.tokens)) if line and line.tokens else None


def _time_to_first(record: Record) -> tuple[float, float] | None:
    line = timeline(record)
    return (float(line.first_ns - line.origin_ns), 1.0) if line else None


def _time_per_token(record: Record) -> tuple[float, float] | None:
    line = timeline(record)
    if line is None or not line.tokens_after_first:
        return None
    return float(line.last_ns - line.first_ns), float(line.tokens_after_first)


PAIR_COSTS: dict[str, Measure] = {
    "request_latency": _latency,
    HEADLINE: _latency_per_token,
    "time_per_output_token": _time_per_token,
    "time_to_first_token": _time_to_first,
}


def pair_costs(pairs: Iterable[Pair], measure: Measure) -> list[Cost]:
    """One cost a pair, those left out that an arm did not measure."""
    costs = []
    for pair in pairs:
        baseline, speculative = measure(pair.baseline), measure(pair.speculative)
        if baseline is not None and speculative is not None:
            costs.append(Cost(*baseline, *speculative, stratum=pair.concurrency))
    return costs


def throughput_costs(pairs: Iterable[Pair], others: Callable[[Pair, str], Sequence[Record]]) -> list[Cost]:
    """One cost a block (active seconds over tokens): requests of one block share the server and are no single units.

    `others(pair, arm)` are the requests that kept the load up in the pair's block. At concurrency 1 every pair is its
    own block.
    """
    blocks: dict[tuple[int, int | str], list[Pair]] = defaultdict(list)
    for pair in pairs:
        blocks[pair.concurrency, _block(pair)].append(pair)
    costs = []
    for (concurrency, _), members in blocks.items():
        first = members[0]
        baseline = measure_load([pair.baseline for pair in members], others(first, "baseline"))
        speculative = measure_load([pair.speculative for pair in members], others(first, "speculative"))
        if baseline.tokens and speculative.tokens:
            costs.append(
                Cost(
                    baseline.seconds,
                    float(baseline.tokens),
                    speculative.seconds,
                    float(speculative.tokens),
                    stratum=concurrency,
                )
            )
    return costs


def _block(pair: Pair) -> int | str:
    if pair.concurrency == 1:
        return pair.key
    return -1 if pair.baseline.block is None else pair.baseline.block
