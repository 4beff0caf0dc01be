"""What a reader must know before trusting the numbers: one sentence each, and whether a verdict may be given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trtspec.loadtest.caveat import Caveat, Check, found_caveats
from trtspec.loadtest.costs import PAIR_COSTS
from trtspec.loadtest.design_caveats import DESIGN, protocols
from trtspec.loadtest.evidence import Evidence, answers_in_one_piece
from trtspec.loadtest.records import concurrency_label
from trtspec.loadtest.steady_state import UNSTEADY, halves, steady_windows
from trtspec.loadtest.table import UNKNOWN
from trtspec.loadtest.units import levels_of
from trtspec.spec.names import ARMS, BASELINE_ARM, SPECULATIVE

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["caveats", "withheld"]

# answers' mean lengths may differ by this much
_LENGTHS = 0.05
# a difference of error rates, and an error rate of both, above which a comparison says nothing
_ERROR_GAP = 0.02
_ERROR_RATE = 0.10
_FEW_PAIRS = 20
_FEW_BLOCKS = 8
# the client's own delay, as a share of the time per token it measures
_CLIENT_BOUND = 0.10
# share of different answers at temperature 0 above which numerics alone are an unlikely reason
_DIVERGED = 0.10


def withheld(evidence: Evidence) -> str | None:
    """Why no verdict may be given, or None."""
    spoken = protocols(evidence)
    if len(set(spoken.values())) > 1:
        text = " and ".join(f"the {arm} arm over {name}" for arm, name in spoken.items())
        return f"{text}: the protocols differ, so their cost is in the difference"
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


def caveats(evidence: Evidence) -> list[Caveat]:
    """All warnings that apply, the gravest first."""
    checks = (
        Check("stopped", "general", _stopped),
        Check("resumed", "general", _resumed),
        Check("failed-requests", "general", _errors),
        *DESIGN,
        Check("answers-in-one-piece", "metrics", _one_piece),
        Check("tokens-uncounted", "metrics", _uncounted),
        Check("lengths-differ", "speed", _lengths),
        Check("few-pairs", "speed", _few_pairs),
        Check("few-blocks", "speed", _few_blocks),
        Check("drift", "run", _drift),
        Check("transient", "run", _transient),
        Check("calibrated-elsewhere", "run", _calibrated_elsewhere),
        Check("client-lag", "run", _client),
        Check("foreign-traffic", "server", _foreign_traffic),
        Check("sampling", "outputs", _sampling),
        Check("different-answers", "outputs", _different_answers),
        Check("counters-contradict", "acceptance", _counter_identities),
    )
    return found_caveats(checks, evidence)


def _stopped(evidence: Evidence) -> list[str]:
    if evidence.measurement.get("interrupted"):
        return ["the load test was interrupted: this is what had been measured by then"]
    stopped = evidence.measurement.get("stopped")
    return [f"the load test was stopped: {stopped}"] if stopped else []


def _resumed(evidence: Evidence) -> list[str]:
    resumed = evidence.measurement.get("resumed")
    changed = resumed.get("changed") if isinstance(resumed, Mapping) else None
    if not isinstance(changed, list) or not changed:
        return []
    arms = " and ".join(f"the {arm} arm" for arm in changed)
    return [f"the run was interrupted, and another server, or one set differently, answered as {arms} afterwards"]


def _calibrated_elsewhere(evidence: Evidence) -> list[str]:
    """What noise does at one load says little about another."""
    calibration = evidence.measurement.get("calibration")
    loads = calibration.get("loads") if isinstance(calibration, Mapping) else None
    if not isinstance(loads, list):
        return []
    missing = [level.label for level, _ in levels_of(evidence.pairs) if level.label not in loads]
    return [f"the A/A run has not measured {', '.join(missing)}: its noise is that of other loads"] if missing else []


def _errors(evidence: Evidence) -> list[str]:
    groups = {arm: evidence.arm(arm) for arm in ARMS}
    failed = [
        f"{len(group.failed)} of the {arm} arm's requests failed; they are in no latency"
        for arm, group in groups.items()
        if len(group.failed)
    ]
    table = evidence.table
    # what fills a load up is cancelled by design, and never counted
    cancelled = int((table.cancelled & ~table.failed & (table.excluded == UNKNOWN)).sum())
    ours = "were cancelled by the load generator; they are left out, and the server may have worked on them for a while"
    return [*failed, *([f"{cancelled} requests {ours}"] if cancelled else [])]


def _one_piece(evidence: Evidence) -> list[str]:
    arms = [arm for arm in ARMS if answers_in_one_piece(evidence.table, evidence.arm(arm).measured)]
    return [f"the {arm} arm answers in one piece: time to first token and all chunk metrics are void" for arm in arms]


def _uncounted(evidence: Evidence) -> list[str]:
    """Streams whose tokens nobody counted chunk by chunk: the whole answer's count says nothing of its course."""
    table, arms = evidence.table, []
    for arm in ARMS:
        rows = evidence.arm(arm).measured
        rows = rows[table.arrivals[rows] > 1]
        if len(rows) and (table.tokens_after_first[rows] < 0).all():
            arms.append(arm)
    text = "arm's tokens were not counted text by text, so there is no time per output token"
    return [f"the {' and the '.join(arms)} {text}: --tokenizer FOLDER counts them"] if arms else []


def _lengths(evidence: Evidence) -> list[str]:
    pairs = evidence.pairs
    means = {arm: _mean_length(evidence.table.answer_tokens[pairs.rows(arm)]) for arm in ARMS}
    one, other = means[SPECULATIVE], means[BASELINE_ARM]
    if one is None or other is None or abs(one - other) <= _LENGTHS * max(one, other):
        return []
    lengths = f"{one:.0f} tokens speculative, {other:.0f} baseline on average"
    return [f"the arms' answers differ in length ({lengths}): compare per token, not per request"]


def _mean_length(counts: NDArray[Any]) -> float | None:
    known = counts[counts >= 0]
    return float(known.mean()) if len(known) else None


def _few_pairs(evidence: Evidence) -> list[str]:
    counts = {level.label: len(chosen) for level, chosen in levels_of(evidence.pairs)}
    few = [f"{count} at {label}" for label, count in counts.items() if count < _FEW_PAIRS]
    return [f"few pairs ({', '.join(few)}): intervals are rough below {_FEW_PAIRS}"] if few else []


def _few_blocks(evidence: Evidence) -> list[str]:
    """Requests that ran together slow each other: their pairs are not independent, their blocks are."""
    import numpy as np

    few = []
    for level, chosen in levels_of(evidence.pairs):
        blocks = evidence.pairs.block[chosen]
        count = len(np.unique(blocks[blocks >= 0]))
        if not level.alone and 0 < count < _FEW_BLOCKS:
            few.append(f"{count} at {level.label}")
    effect = f"requests of a block ran together and count as one, so intervals are wide below {_FEW_BLOCKS} blocks"
    return [f"few blocks ({', '.join(few)}): {effect}"] if few else []


def _drift(evidence: Evidence) -> list[str]:
    texts = []
    for (arm, label), group in evidence.groups.items():
        change = halves(evidence.table, group.measured) if arm == BASELINE_ARM else None
        if change is not None and abs(math.log(change)) > math.log(1 + UNSTEADY):
            share = f"{abs(change - 1):.0%} {'slower' if change > 1 else 'faster'}"
            texts.append(f"the baseline became {share} during {label}: the machine was not steady")
    return texts


def _transient(evidence: Evidence) -> list[str]:
    texts = []
    for level, chosen in levels_of(evidence.pairs):
        for arm, window in steady_windows(evidence.pairs.select(chosen)).items():
            change = window.transient
            if change is not None and abs(math.log(change)) > math.log(1 + UNSTEADY):
                share = f"{abs(change - 1):.0%} {'slower' if change > 1 else 'faster'} than the rest"
                where = f"the {arm} arm's first {window.skipped} measured requests at {level.label}"
                texts.append(f"{where} were {share}: warm up longer")
    return texts


def _client(evidence: Evidence) -> list[str]:
    """Single chunks are stamped late by the loop's lag, however long the request."""
    lag = ((evidence.measurement.get("client") or {}).get("loop_lag") or {}).get("p50")
    cost = PAIR_COSTS["time_per_output_token"](evidence.table, evidence.arm(BASELINE_ARM).measured)
    known = cost.work == cost.work  # not NaN
    if lag is None or not known.any():
        return []
    per_token = float(cost.time[known].sum() / cost.work[known].sum()) * 1e-9
    if lag <= _CLIENT_BOUND * per_token:
        return []
    beside = f"much beside {per_token * 1e3:.1f} ms a token: waits for single texts are rough"
    return [f"the load generator itself lags {lag * 1e3:.1f} ms (median), {beside}"]


def _foreign_traffic(evidence: Evidence) -> list[str]:
    texts = []
    for entry in evidence.measurement.get("servers") or []:
        label = entry.get("load") or concurrency_label(entry.get("concurrency") or 1)
        sent, grown = evidence.groups.get((entry.get("arm"), label)), entry.get("frontend_requests")
        if grown is not None and sent is not None and grown > len(sent.rows):
            where = f"the {entry['arm']} server at {label}"
            texts.append(f"{where} answered {grown} requests, {len(sent.rows)} of them ours: others used it")
    return texts


def _sampling(evidence: Evidence) -> list[str]:
    temperature = evidence.options.get("temperature")
    if not temperature:
        return []
    return [f"temperature {temperature:g}: answers are samples, so arms may differ without a fault"]


def _different_answers(evidence: Evidence) -> list[str]:
    pairs, text = evidence.pairs, evidence.table.text_hash
    if evidence.options.get("temperature") != 0 or not len(pairs):
        return []
    apart = int((text[pairs.baseline] != text[pairs.speculative]).sum())
    if apart <= _DIVERGED * len(pairs):
        return []
    return [f"{apart} of {len(pairs)} answers differ at temperature 0: `trtspec verify` tells near ties from a fault"]


def _counter_identities(evidence: Evidence) -> list[str]:
    import numpy as np

    table, rows = evidence.table, evidence.arm(SPECULATIVE).measured
    rows = rows[table.has_histogram[rows] & (table.steps[rows] >= 0)]
    if not len(rows):
        return []
    sizes = np.diff(table.histogram_offsets)
    index = np.arange(len(table.histogram)) - np.repeat(table.histogram_offsets[:-1], sizes)
    rounds, accepted = (
        np.concatenate([[0], np.cumsum(values)])[table.histogram_offsets]
        for values in (table.histogram.astype(np.int64), index * table.histogram.astype(np.int64))
    )
    wrong = (np.diff(rounds)[rows] != table.steps[rows]) | (np.diff(accepted)[rows] != table.accepted[rows])
    return [f"the counters of {int(wrong.sum())} requests contradict their acceptance histogram"] if wrong.any() else []
