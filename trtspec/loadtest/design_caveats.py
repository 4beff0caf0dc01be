"""Warnings about how a run was made: prompts, caches, order of the arms, protocol, schedule."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from trtspec.loadtest.calibration import is_aa
from trtspec.loadtest.caveat import Check
from trtspec.loadtest.costs import latency_ns
from trtspec.loadtest.evidence import Evidence
from trtspec.loadtest.levels import parse_level
from trtspec.loadtest.pairing import repeated_prompts
from trtspec.loadtest.records import TOKEN_SOURCES
from trtspec.loadtest.selection import Group
from trtspec.loadtest.table import NEVER, UNKNOWN, Table
from trtspec.loadtest.throughput import active_intervals
from trtspec.spec.names import ARMS, BASELINE_ARM, SPECULATIVE, Arm

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DESIGN", "protocols"]

# share of an arm's active time in which the other arm may be active too
_OVERLAP = 0.02
# share of answers that end at their token limit
_CUT = 0.99
_FEWEST = 5
# latency at the end of an open loop's blocks over that at their begin, and the requests that it takes to tell
_GROWING = 1.5
_FEWEST_OF_A_THIRD = 10
# how late the latest of 100 requests may be sent, as a share of the mean latency
_LATE = 0.10


def protocols(evidence: Evidence) -> dict[Arm, str]:
    """What each arm was spoken to with, by its first record; arms that do not say are left out."""
    found = {}
    with suppress(LookupError):  # the texts of a run under way are not kept
        for arm in ARMS:
            rows = evidence.table.arm_rows(arm)
            name = evidence.table.records(rows[:1])[0].protocol if len(rows) else None
            if name is not None:
                found[arm] = name
    return found


def _synthetic(evidence: Evidence) -> list[str]:
    if not evidence.synthetic:
        return []
    return ["synthetic prompts: acceptance, and with it the speed-up, depends on real text; not valid for a decision"]


def _forced_lengths(evidence: Evidence) -> list[str]:
    if evidence.options.get("ignore_eos"):
        return ["ignore_eos: text past its natural end is easier to draft; not valid for acceptance"]
    table, pairs = evidence.table, evidence.pairs
    rows = pairs.speculative
    limited = (table.max_tokens[rows] > 0) & (table.answer_tokens[rows] >= table.max_tokens[rows])
    if len(rows) < _FEWEST or limited.mean() < _CUT:
        return []
    return ["every answer was cut off at its token limit: in real use they end by themselves, and lengths vary"]


def _one_after_the_other(evidence: Evidence) -> list[str]:
    """Whatever changes with time is then a difference of the arms."""
    import numpy as np

    texts = []
    for label, groups in _both(evidence).items():
        rows = np.concatenate([group.counted for group in groups])
        arms = evidence.table.arm[rows[np.argsort(evidence.table.start_ns[rows], kind="stable")]]
        if min(len(group.counted) for group in groups) >= _FEWEST and int((np.diff(arms) != 0).sum()) <= 1:
            texts.append(f"at {label} one arm ran wholly before the other: whatever drifts is in the speed-up")
    return texts


def _at_once(evidence: Evidence) -> list[str]:
    texts = []
    for label, groups in _both(evidence).items():
        spans = [active_intervals(evidence.table, group.measured) for group in groups]
        active = min(float((end - start).sum()) for start, end in spans)
        both = _overlap(*spans)
        if active > 0 and both > _OVERLAP * active:
            share = f"{both / active:.0%} of the time"
            texts.append(
                f"at {label} both arms ran at once ({share}): unless each has its own GPUs they slow each other"
            )
    return texts


def _both(evidence: Evidence) -> dict[str, tuple[Group, Group]]:
    """Load label → the groups of both arms."""
    groups = evidence.groups
    labels = [label for arm, label in groups if arm == BASELINE_ARM and (SPECULATIVE, label) in groups]
    return {label: (groups[BASELINE_ARM, label], groups[SPECULATIVE, label]) for label in labels}


def _overlap(one: tuple[NDArray[Any], NDArray[Any]], other: tuple[NDArray[Any], NDArray[Any]]) -> float:
    """Time that lies in both unions of intervals, in ns."""
    import numpy as np

    times = np.concatenate([*one, *other])
    steps = np.repeat([1, -1, 1, -1], [len(part) for part in (*one, *other)])
    order = np.lexsort((steps, times))
    times, depth = times[order], np.cumsum(steps[order])
    return float(np.diff(times)[depth[:-1] == 2].sum())


def _own_hardware(evidence: Evidence) -> list[str]:
    placement = evidence.measurement.get("placement") or {}
    if placement.get("shared") is not False or is_aa(evidence.provenance):
        return []
    way_out = "deploy the arms the other way round and measure again, or put both on one machine"
    return [f"each arm has hardware of its own, which is part of the difference: {way_out}"]


def _overloaded(evidence: Evidence) -> list[str]:
    """A queue that grows while a block lasts would go on growing: the block's end hides it."""
    texts = []
    for (arm, label), group in evidence.groups.items():
        growth = None if parse_level(label).closed else _growth_in_blocks(evidence.table, group.measured)
        if growth is not None and growth > _GROWING:
            texts.append(
                f"at {label} the {arm} arm's answers take {growth:.1f} times as long at the end of a block as at its "
                "begin: it does not keep up, and in the long run they would take longer than any figure here"
            )
    return texts


def _growth_in_blocks(table: Table, rows: NDArray[Any]) -> float | None:
    """Mean latency of the requests in the last third of their blocks over that of the first third; None for few."""
    import numpy as np

    rows = rows[(table.block[rows] >= 0) & (table.last_ns[rows] != NEVER)]
    order = np.lexsort((table.origin_ns[rows], table.block[rows]))
    rows = rows[order]
    _, first, sizes = np.unique(table.block[rows], return_index=True, return_counts=True)
    place = (np.arange(len(rows)) - np.repeat(first, sizes) + 0.5) / np.repeat(sizes, sizes)
    latency = latency_ns(table, rows)
    early, late = latency[place < 1 / 3], latency[place > 2 / 3]
    if min(len(early), len(late)) < _FEWEST_OF_A_THIRD:
        return None
    return float(late.sum() / len(late) / (early.sum() / len(early)))


def _warm_up(evidence: Evidence) -> list[str]:
    table = evidence.table
    code = table.code("warm-up")
    counts = {arm: int((table.excluded[table.arm_rows(arm)] == code).sum()) if code >= 0 else 0 for arm in ARMS}
    cold = [arm for arm, count in counts.items() if not count and len(table.arm_rows(arm))]
    if len(cold) != 1 or not any(counts.values()):
        return []
    return [f"only one arm was warmed up: the {cold[0]} arm's first requests met a cold server"]


def _start_burst(evidence: Evidence) -> list[str]:
    code = evidence.table.code("start burst")
    count = int((evidence.table.excluded == code).sum()) if code >= 0 else 0
    effect = "they queue behind one another and are left out; ramp the start"
    return [f"{count} requests opened a load level all at once: {effect}"] if count else []


def _repeats(evidence: Evidence) -> list[str]:
    repeats = repeated_prompts(evidence.table)
    if not repeats:
        return []
    effect = "caches of known prefixes make their first token early; intervals count each prompt once"
    return [f"{repeats} requests repeated a prompt: {effect}"]


def _conversations_apart(evidence: Evidence) -> list[str]:
    """Each arm's later turns carry its own earlier answers: where these differ, so do the prompts."""
    import numpy as np

    table, pairs = evidence.table, evidence.pairs
    pairs = pairs.select(table.session[pairs.baseline] >= 0)
    if not len(pairs):
        return []
    turn, key = table.turn[pairs.baseline], pairs.load.astype(np.int64) * len(table.names)
    _, which = np.unique(key + table.session[pairs.baseline], return_inverse=True)
    apart = table.text_hash[pairs.baseline] != table.text_hash[pairs.speculative]
    first = np.full(int(which.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, which[apart], turn[apart])
    later = int((turn > first[which]).sum())
    if not later:
        return []
    effect = "their conversations, and so their prompts, are not the same in both arms"
    return [f"{later} later turns came after answers that differ: {effect}"]


def _again_at_other_levels(evidence: Evidence) -> list[str]:
    import numpy as np

    table = evidence.table
    inside = table.excluded == UNKNOWN
    size = len(table.names) + 1
    sent = np.unique(table.prompt[inside].astype(np.int64) * size + table.load[inside])
    again = int((np.bincount(sent // size) > 1).sum()) if len(sent) else 0
    if not again:
        return []
    effect = "time to first token of the later ones may profit from caches of known prefixes, in both arms alike"
    return [f"{again} prompts were sent at more than one load level: {effect}"]


def _unpaired(evidence: Evidence) -> list[str]:
    if not all(len(evidence.table.arm_rows(arm)) for arm in ARMS):
        return []
    alone = {arm: len(evidence.arm(arm).measured) - len(evidence.pairs) for arm in ARMS}
    text = " and ".join(f"{count} {arm}" for arm, count in alone.items() if count)
    return [f"{text} answers have no partner in the other arm: they are in no speed-up"] if text else []


def _token_sources(evidence: Evidence) -> list[str]:
    sources = {arm: _source(evidence.table, evidence.arm(arm).measured) for arm in ARMS}
    if None in sources.values() or len(set(sources.values())) == 1:
        return []
    text = " and ".join(f"{source} ({arm})" for arm, source in sources.items())
    return [f"tokens are counted differently in the arms: {text}; figures per token do not compare exactly"]


def _source(table: Table, rows: NDArray[Any]) -> str | None:
    import numpy as np

    codes = np.unique(table.tokens_source[rows])
    return "by several" if len(codes) > 1 else TOKEN_SOURCES[int(codes[0])] if len(codes) and codes[0] >= 0 else None


def _late_sends(evidence: Evidence) -> list[str]:
    """An open loop's latency counts from the schedule, so late sends are in it."""
    import numpy as np

    texts, table = [], evidence.table
    for (arm, label), group in evidence.groups.items():
        rows = group.measured
        if parse_level(label).closed or not len(rows):
            continue
        late = float(np.quantile(table.start_ns[rows] - table.origin_ns[rows], 0.99)) * 1e-6
        if late > _LATE * float(np.nanmean(latency_ns(table, rows))) * 1e-6:
            share = "1 of 100 requests was" if len(rows) >= 100 else "one request was"
            texts.append(f"the schedule of {label} could not be kept ({arm}): {share} {late:.0f} ms late or more")
    return texts


def _draft_lengths(evidence: Evidence) -> list[str]:
    import numpy as np

    lengths = np.unique(evidence.table.draft_length[evidence.arm(SPECULATIVE).measured])
    lengths = lengths[lengths >= 0]
    if len(lengths) < 2:
        return []
    return [f"draft lengths differ between requests ({', '.join(map(str, lengths[:6].tolist()))}): speed-ups mix them"]


def _rounded_weights(evidence: Evidence) -> list[str]:
    """The torch runtime's weights in fewer bits than the checkpoint's (the spec's `torch.weights`)."""
    section = (evidence.provenance.get("spec") or {}).get("torch") or {}
    weights = section.get("weights", "exact")
    if weights == "exact":
        return []
    return [f"both arms ran with weights rounded to {weights}: their answers are not exactly the checkpoint's"]


DESIGN = (
    Check("synthetic-prompts", "general", _synthetic),
    Check("forced-lengths", "acceptance", _forced_lengths),
    Check("arms-apart-in-time", "general", _one_after_the_other),
    Check("arms-at-once", "load", _at_once),
    Check("own-hardware", "general", _own_hardware),
    Check("warm-up", "run", _warm_up),
    Check("start-burst", "run", _start_burst),
    Check("repeated-prompts", "speed", _repeats),
    Check("conversations-apart", "speed", _conversations_apart),
    Check("prompts-at-several-loads", "load", _again_at_other_levels),
    Check("unpaired-answers", "speed", _unpaired),
    Check("token-sources", "metrics", _token_sources),
    Check("late-sends", "run", _late_sends),
    Check("overloaded", "load", _overloaded),
    Check("draft-lengths", "acceptance", _draft_lengths),
    Check("rounded-weights", "outputs", _rounded_weights),
)
