"""`summary.json`, computed from the raw records alone; what else a run left only adds warnings and places."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trtspec.loadtest.acceptance import acceptance, derived_length
from trtspec.loadtest.comparison import compare
from trtspec.loadtest.distribution import missing, scalar
from trtspec.loadtest.evidence import Evidence, answers_in_one_piece
from trtspec.loadtest.figures import formulas
from trtspec.loadtest.goodput import Attempts, goodput, service_levels
from trtspec.loadtest.levels import LoadLevel, parse_level
from trtspec.loadtest.metrics import METRICS, metric_rows
from trtspec.loadtest.records import Record
from trtspec.loadtest.round_costs import with_round_costs
from trtspec.loadtest.selection import Group, mark_start_bursts
from trtspec.loadtest.server_loads import server
from trtspec.loadtest.table import UNKNOWN, Table, table_of
from trtspec.loadtest.telemetry.samples import Samples
from trtspec.loadtest.throughput import Load, measure_load
from trtspec.loadtest.underrun import READING_SPEED, ReadingSample, underruns
from trtspec.spec.names import ARMS, SPECULATIVE, Arm

__all__ = ["SIGNIFICANT_DIGITS", "rounded", "summarise"]

SIGNIFICANT_DIGITS = 9
_ONE_PIECE = "answers came in one piece: the server does not stream"


def summarise(
    records: Table | Iterable[Record],
    provenance: Mapping[str, Any] | None = None,
    measurement: Mapping[str, Any] | None = None,
    divergences: Sequence[Mapping[str, Any]] = (),
    samples: Samples | None = None,
) -> dict[str, Any]:
    """The summary of a run, the same on every machine.

    `measurement` is what the load generator saw of itself and the servers (`measurement.json`), `divergences` the
    examined places where arms part (`divergence.json`), `samples` what servers and GPUs showed in between
    (`telemetry.jsonl`); all may be missing. Service levels and the reading speed are
    those of the run's options.
    """
    table = records if isinstance(records, Table) else table_of(records)
    evidence = Evidence(mark_start_bursts(table), measurement or {}, provenance or {})
    seed = evidence.options.get("seed", 1)
    rules = _rules(evidence)
    summary = {
        "schema": 1,
        "arms": {arm: _arm(evidence, arm, rules) for arm in ARMS if len(evidence.table.arm_rows(arm))},
        "acceptance": _acceptance(evidence),
        "comparison": compare(evidence, divergences, seed=seed if isinstance(seed, int) else 1),
        "valid_for_acceptance": not evidence.synthetic,
        "client": evidence.measurement.get("client"),
        "server": server(evidence, samples),
        "cold_start": evidence.measurement.get("cold_start") or None,
        "formulas": formulas(),
    }
    result: dict[str, Any] = rounded(with_round_costs(summary))
    return result


def rounded(value: Any) -> Any:
    """`value` with every fraction in it rounded to 9 significant digits: a nanosecond in a second.

    The last digits of a logarithm differ between processors and C libraries; nobody measures them.
    """
    if isinstance(value, float):
        return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if math.isfinite(value) else value
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, (list, tuple)) else value


@dataclass(frozen=True)
class _Rules:
    """By what requests are judged: service levels in seconds, and the speed at which answers are read."""

    levels: Mapping[str, float]
    reading_speed: float


def _rules(evidence: Evidence) -> _Rules:
    speed = evidence.options.get("reading_speed")
    if not isinstance(speed, (int, float)) or isinstance(speed, bool) or speed <= 0:
        speed = READING_SPEED
    return _Rules(service_levels(evidence.options), float(speed))


def _arm(evidence: Evidence, arm: Arm, rules: _Rules) -> dict[str, Any]:
    groups = {parse_level(label): group for (name, label), group in evidence.groups.items() if name == arm}
    loads = {
        level: measure_load(group.table, group.measured, group.others, group.failed) for level, group in groups.items()
    }
    rows = {level: _rows(group, loads[level], rules) for level, group in groups.items()}
    return {
        **_rows(evidence.arm(arm), _together(loads.values()), rules),
        "by_concurrency": {f"{level.value:g}": row for level, row in rows.items() if level.closed and level.value},
        "by_load": {level.label: {**_kind(level), **row} for level, row in rows.items()},
    }


def _kind(level: LoadLevel) -> dict[str, Any]:
    return {"kind": level.kind, "value": level.value}


def _together(loads: Iterable[Load]) -> Load:
    parts = list(loads)
    tokens = [part.tokens for part in parts if part.tokens is not None]
    total = sum(tokens) if len(tokens) == len(parts) else None
    return Load(sum(part.active_ns for part in parts), total, sum(part.requests for part in parts))


def _rows(group: Group, load: Load, rules: _Rules) -> dict[str, Any]:
    measured, failed = group.measured, len(group.failed)
    sample = ReadingSample(group.table, measured, rules.reading_speed)
    rows = metric_rows(sample)
    reading = underruns(sample)
    if answers_in_one_piece(group.table, measured):
        rows.update({m.name: missing(m.unit, _ONE_PIECE) for m in METRICS if m.streaming})
        reading = {**reading, "share": None, "low": None, "high": None, "count": 0, "reason": _ONE_PIECE}
    rows["output_tokens_per_second"]["total"] = load.tokens_per_second
    count = len(measured)
    return {
        "requests": {"ok": count, "failed": failed, "excluded": group.excluded},
        "error_rate": group.error_rate,
        "active_seconds": load.seconds,
        **rows,
        "underruns": reading,
        "requests_per_second": scalar(load.requests_per_second, "requests/s", count, "one value, no distribution"),
        "goodput": goodput(Attempts(sample, failed), rules.levels, load.seconds),
    }


def _acceptance(evidence: Evidence) -> dict[str, Any]:
    group = evidence.arm(SPECULATIVE)
    growths = [entry.get("target_requests") for entry in evidence.measurement.get("servers", [])
               if entry.get("arm") == SPECULATIVE]  # fmt: skip
    growth = sum(growths) if growths and None not in growths else None
    return acceptance(group.table, group.measured, derived_length(_all_tokens(group), growth))


def _all_tokens(group: Group) -> int | None:
    """Tokens of every chunk that was sent, measured or not; None when one is not counted."""
    import numpy as np

    mine = np.zeros(len(group.table), dtype=bool)
    mine[group.rows] = True
    counts = group.table.chunk_tokens[np.repeat(mine, np.diff(group.table.chunk_offsets))]
    return None if (counts == UNKNOWN).any() else int(counts.sum())
