"""`summary.json`, computed from the raw records alone; what else a run left only adds warnings and places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trtspec.loadtest.acceptance import acceptance, derived_length
from trtspec.loadtest.caveats import Evidence, answers_in_one_piece
from trtspec.loadtest.comparison import compare
from trtspec.loadtest.distribution import missing, scalar
from trtspec.loadtest.metrics import METRICS, metric_rows
from trtspec.loadtest.pairing import make_pairs
from trtspec.loadtest.records import Record
from trtspec.loadtest.selection import Group, group_records
from trtspec.loadtest.throughput import Load, measure_load
from trtspec.spec.names import ARMS, SPECULATIVE, Arm

__all__ = ["summarise"]

_NO_LEVELS = "no service levels were given"
_ONE_PIECE = "answers came in one piece: the server does not stream"


def summarise(
    records: Iterable[Record],
    provenance: Mapping[str, Any] | None = None,
    measurement: Mapping[str, Any] | None = None,
    divergences: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The summary of a run.

    `measurement` is what the load generator saw of itself and the servers (`measurement.json`), `divergences` the
    examined places where arms part (`divergence.json`); both may be missing.
    """
    groups = group_records(records)
    evidence = Evidence(groups, make_pairs(groups), measurement or {}, provenance or {})
    seed = int(evidence.provenance.get("options", {}).get("seed", 1))
    return {
        "schema": 1,
        "arms": {arm: _arm(evidence, arm) for arm in ARMS if evidence.arm(arm).records},
        "acceptance": _acceptance(evidence),
        "comparison": compare(evidence, divergences, seed=seed),
        "valid_for_acceptance": not evidence.synthetic,
        "client": evidence.measurement.get("client"),
        "formulas": {metric.name: metric.formula for metric in METRICS},
    }


def _arm(evidence: Evidence, arm: Arm) -> dict[str, Any]:
    levels = {concurrency: group for (name, concurrency), group in evidence.groups.items() if name == arm}
    loads = {concurrency: measure_load(group.measured, group.others) for concurrency, group in levels.items()}
    return {
        **_rows(evidence.arm(arm), _together(loads.values())),
        "by_concurrency": {str(c): _rows(group, loads[c]) for c, group in sorted(levels.items())},
    }


def _together(loads: Iterable[Load]) -> Load:
    parts = list(loads)
    tokens = [part.tokens for part in parts if part.tokens is not None]
    total = sum(tokens) if len(tokens) == len(parts) else None
    return Load(sum(part.seconds for part in parts), total, sum(part.requests for part in parts))


def _rows(group: Group, load: Load) -> dict[str, Any]:
    measured = group.measured
    rows = metric_rows(measured)
    if answers_in_one_piece(measured):
        rows.update({m.name: missing(m.unit, _ONE_PIECE) for m in METRICS if m.streaming})
    rows["output_tokens_per_second"]["total"] = load.tokens_per_second
    count = len(measured)
    return {
        "requests": {"ok": count, "failed": len(group.failed), "excluded": group.excluded},
        "error_rate": group.error_rate,
        "active_seconds": load.seconds,
        **rows,
        "requests_per_second": scalar(load.requests_per_second, "requests/s", count, "one value, no distribution"),
        "goodput": missing("requests/s", _NO_LEVELS, higher_is_better=True),
    }


def _acceptance(evidence: Evidence) -> dict[str, Any]:
    group = evidence.arm(SPECULATIVE)
    growths = [entry.get("target_requests") for entry in evidence.measurement.get("servers", [])
               if entry.get("arm") == SPECULATIVE]  # fmt: skip
    growth = sum(growths) if growths and None not in growths else None
    return acceptance(group.measured, derived_length(_all_tokens(group), growth))


def _all_tokens(group: Group) -> int | None:
    counts = [chunk.tokens for record in group.records for chunk in record.chunks if chunk.tokens or chunk.text]
    return None if None in counts else sum(count or 0 for count in counts)
