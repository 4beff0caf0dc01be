"""What a reader must know before trusting the numbers: one sentence each, and whether a verdict may be given."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trtspec.loadtest.costs import HEADLINE, PAIR_COSTS
from trtspec.loadtest.pairing import Pair, repeated_prompts
from trtspec.loadtest.records import Record
from trtspec.loadtest.selection import Group
from trtspec.loadtest.timeline import output_tokens, timeline
from trtspec.spec.names import ARMS, BASELINE_ARM, SPECULATIVE, Arm

__all__ = ["Evidence", "answers_in_one_piece", "caveats", "withheld"]

# answers' mean lengths may differ by this much
_LENGTHS = 0.05
# a difference of error rates, and an error rate of both, above which a comparison says nothing
_ERROR_GAP = 0.02
_ERROR_RATE = 0.10
_FEW_PAIRS = 20
# blocks of a concurrency above 1, below which an interval over pairs is said to be too narrow
_FEW_BLOCKS = 5
# change of the baseline between the halves of a level
_DRIFT = 0.10
# the client's own delay, as a share of the time per token it measures
_CLIENT_BOUND = 0.10
_LONG_ANSWER = 16


@dataclass(frozen=True)
class Evidence:
    """All that a summary is made of."""

    groups: Mapping[tuple[Arm, int], Group]
    pairs: Sequence[Pair]
    measurement: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def arm(self, arm: Arm) -> Group:
        """All concurrencies of an arm, pooled."""
        parts = [group.records for (name, _), group in self.groups.items() if name == arm]
        return Group(tuple(record for part in parts for record in part))

    @property
    def records(self) -> list[Record]:
        """All records."""
        return [record for group in self.groups.values() for record in group.records]

    @property
    def synthetic(self) -> bool:
        """True when prompts were made of random words."""
        return any(record.synthetic for record in self.records)


def withheld(evidence: Evidence) -> str | None:
    """Why no verdict may be given, or None."""
    rates = {arm: evidence.arm(arm).error_rate for arm in ARMS}
    known = {arm: rate for arm, rate in rates.items() if rate is not None}
    if len(known) < 2:
        return None
    text = " and ".join(f"{rate:.1%} of the {arm} arm's requests" for arm, rate in known.items())
    if abs(known[SPECULATIVE] - known[BASELINE_ARM]) > _ERROR_GAP:
        return f"{text} failed: a server that refuses requests looks fast"
    if max(known.values()) > _ERROR_RATE:
        return f"{text} failed: what is left is no fair sample"
    return None


def caveats(evidence: Evidence) -> list[str]:
    """All warnings that apply, the gravest first."""
    checks: tuple[Callable[[Evidence], list[str]], ...] = (
        _stopped,
        _errors,
        _synthetic,
        _one_piece,
        _lengths,
        _few_pairs,
        _few_blocks,
        _repeats,
        _again_at_other_levels,
        _drift,
        _client,
        _foreign_traffic,
        _sampling,
        _counter_identities,
    )
    return [text for check in checks for text in check(evidence)]


def _stopped(evidence: Evidence) -> list[str]:
    if evidence.measurement.get("interrupted"):
        return ["the load test was interrupted: this is what had been measured by then"]
    stopped = evidence.measurement.get("stopped")
    return [f"the load test was stopped: {stopped}"] if stopped else []


def _errors(evidence: Evidence) -> list[str]:
    counts = {arm: len(evidence.arm(arm).failed) for arm in ARMS}
    return [
        f"{count} of the {arm} arm's requests failed; they are in no latency" for arm, count in counts.items() if count
    ]


def _synthetic(evidence: Evidence) -> list[str]:
    if not evidence.synthetic:
        return []
    return ["synthetic prompts: acceptance, and with it the speed-up, depends on real text; not valid for a decision"]


def answers_in_one_piece(measured: Sequence[Record]) -> bool:
    """True when long answers all arrived at once: the server does not stream, and TTFT is the whole latency."""
    lines = [line for line in map(timeline, measured) if line is not None]
    tokens = [count for count in map(output_tokens, measured) if count is not None]
    if not lines or not tokens or any(len(line.arrivals) > 1 for line in lines):
        return False
    return sum(tokens) / len(tokens) > _LONG_ANSWER


def _one_piece(evidence: Evidence) -> list[str]:
    arms = [arm for arm in ARMS if answers_in_one_piece(evidence.arm(arm).measured)]
    return [f"the {arm} arm answers in one piece: time to first token and all chunk metrics are void" for arm in arms]


def _lengths(evidence: Evidence) -> list[str]:
    means = {arm: _mean_length([getattr(pair, arm) for pair in evidence.pairs]) for arm in ARMS}
    one, other = means[SPECULATIVE], means[BASELINE_ARM]
    if one is None or other is None or abs(one - other) <= _LENGTHS * max(one, other):
        return []
    lengths = f"{one:.0f} tokens speculative, {other:.0f} baseline on average"
    return [f"the arms' answers differ in length ({lengths}): compare per token, not per request"]


def _mean_length(records: Sequence[Record]) -> float | None:
    counts = [count for count in map(output_tokens, records) if count is not None]
    return sum(counts) / len(counts) if counts else None


def _few_pairs(evidence: Evidence) -> list[str]:
    levels = sorted({pair.concurrency for pair in evidence.pairs})
    counts = {level: sum(pair.concurrency == level for pair in evidence.pairs) for level in levels}
    few = [f"{count} at concurrency {level}" for level, count in counts.items() if count < _FEW_PAIRS]
    return [f"few pairs ({', '.join(few)}): intervals are rough below {_FEW_PAIRS}"] if few else []


def _few_blocks(evidence: Evidence) -> list[str]:
    """Requests that ran together slow each other: their pairs are not independent, their blocks are."""
    blocks: dict[int, set[int | None]] = {}
    for pair in evidence.pairs:
        if pair.concurrency > 1 and pair.baseline.block is not None:
            blocks.setdefault(pair.concurrency, set()).add(pair.baseline.block)
    few = [f"{len(of)} at concurrency {level}" for level, of in sorted(blocks.items()) if len(of) < _FEW_BLOCKS]
    if not few:
        return []
    effect = "requests of a block ran together, so these intervals are rather too narrow"
    return [f"few blocks ({', '.join(few)}): {effect}"]


def _repeats(evidence: Evidence) -> list[str]:
    repeats = repeated_prompts(evidence.records)
    if not repeats:
        return []
    effect = "caches of known prefixes make their first token early, and pairs are not independent"
    return [f"{repeats} requests repeated a prompt: {effect}"]


def _again_at_other_levels(evidence: Evidence) -> list[str]:
    levels: dict[str, set[int]] = {}
    for record in evidence.records:
        if record.excluded is None:
            levels.setdefault(record.prompt_id, set()).add(record.concurrency)
    again = sum(len(of_prompt) > 1 for of_prompt in levels.values())
    if not again:
        return []
    effect = "time to first token of the later ones may profit from caches of known prefixes, in both arms alike"
    return [f"{again} prompts were sent at more than one concurrency: {effect}"]


def _drift(evidence: Evidence) -> list[str]:
    texts = []
    for (arm, concurrency), group in evidence.groups.items():
        halves = _halves(group.measured)
        if arm == BASELINE_ARM and halves is not None and abs(math.log(halves)) > math.log(1 + _DRIFT):
            word = "slower" if halves > 1 else "faster"
            share = f"{abs(halves - 1):.0%} {word}"
            texts.append(f"the baseline became {share} during concurrency {concurrency}: the machine was not steady")
    return texts


def _halves(measured: Sequence[Record]) -> float | None:
    """Latency per token of the second half over that of the first."""
    costs = [cost for cost in map(PAIR_COSTS[HEADLINE], measured) if cost is not None]
    if len(costs) < _FEW_PAIRS:
        return None
    middle = len(costs) // 2
    first, second = (sum(t for t, _ in part) / sum(w for _, w in part) for part in (costs[:middle], costs[middle:]))
    return second / first if first > 0 else None


def _client(evidence: Evidence) -> list[str]:
    lag = (evidence.measurement.get("client") or {}).get("loop_lag", {}).get("p50")
    costs = [cost for cost in map(PAIR_COSTS["time_per_output_token"], evidence.arm(BASELINE_ARM).measured) if cost]
    if lag is None or not costs:
        return []
    per_token = sum(t for t, _ in costs) / sum(w for _, w in costs) * 1e-9
    if lag <= _CLIENT_BOUND * per_token:
        return []
    return [
        f"the load generator itself lags {lag * 1e3:.1f} ms (median): too much beside {per_token * 1e3:.1f} ms a token"
    ]


def _foreign_traffic(evidence: Evidence) -> list[str]:
    texts = []
    for entry in evidence.measurement.get("servers", []):
        sent = evidence.groups.get((entry["arm"], entry["concurrency"]))
        grown = entry.get("frontend_requests")
        if grown is not None and sent is not None and grown > len(sent.records):
            where = f"the {entry['arm']} server at concurrency {entry['concurrency']}"
            texts.append(f"{where} answered {grown} requests, {len(sent.records)} of them ours: others used it")
    return texts


def _sampling(evidence: Evidence) -> list[str]:
    temperature = evidence.provenance.get("options", {}).get("temperature")
    if not temperature:
        return []
    return [f"temperature {temperature:g}: answers are samples, so arms may differ without a fault"]


def _counter_identities(evidence: Evidence) -> list[str]:
    wrong = 0
    for record in evidence.arm(SPECULATIVE).measured:
        server = record.server
        if server is None or server.acceptance_histogram is None or server.num_spec_steps is None:
            continue
        histogram = server.acceptance_histogram
        accepted = sum(index * count for index, count in enumerate(histogram))
        wrong += sum(histogram) != server.num_spec_steps or accepted != server.num_accepted_tokens
    return [f"the counters of {wrong} requests contradict their acceptance histogram"] if wrong else []
