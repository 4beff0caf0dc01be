"""What a round consists of, by the server's own clock, in steps of the baseline: drafts, verification, calls, the wire.

The clients tell how long a round takes and a step of the baseline; the frontend's metrics tell which part of a round
its two inner calls took (`trtspec_round_part_seconds_total`, first rounds left out: they read the prompt).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trtspec.spec.names import BASELINE_ARM, SPECULATIVE

__all__ = ["ROUND_PARTS", "with_round_costs"]

# part of a round → the server's figure
ROUND_PARTS = {"draft": "round_draft_time", "target": "round_target_time", "overhead": "round_overhead_time"}
Row = Mapping[str, Any]


def with_round_costs(summary: Row) -> dict[str, Any]:
    """`summary` with `round` in each row of `comparison.predicted.by_load`."""
    comparison = summary.get("comparison") or {}
    predicted = comparison.get("predicted") or {}
    rows = {
        label: {**row, "round": _round(summary, label, row)} for label, row in (predicted.get("by_load") or {}).items()
    }
    return (
        {**summary, "comparison": {**comparison, "predicted": {**predicted, "by_load": rows}}} if rows else {**summary}
    )


def _round(summary: Row, label: str, row: Row) -> dict[str, Any]:
    """Seconds of each part, and the ideal speed-up that they allow.

    Means throughout, because the server's are. **Formula:** step = mean time per output token of the baseline; a round
    of the client = tokens per round x step / decode; transport = that - (draft + target + overhead); ideal = tokens per
    round x step / (draft + target); achieved_over_ideal = decode / ideal.
    """
    step = _number(summary, "arms", BASELINE_ARM, "by_load", label, "time_per_output_token", "mean")
    times = ("server", SPECULATIVE, label, "times")
    parts = {part: _number(summary, *times, figure, "mean") for part, figure in ROUND_PARTS.items()}
    tokens, decode = row.get("tokens_per_round"), row.get("decode")
    known = [value for value in parts.values() if value is not None]
    if len(known) < len(parts):
        return {**_nothing(step, parts), "reason": _why(summary, label)}
    if not step or not tokens or not decode:
        return {**_nothing(step, parts), "reason": row.get("reason") or "the baseline's steps are not known"}
    ideal = tokens * step / (known[0] + known[1])
    return {
        "step": step,
        **parts,
        "transport": tokens * step / decode - sum(known),
        "ideal": ideal,
        "achieved_over_ideal": decode / ideal,
        "reason": None,
    }


def _nothing(step: float | None, parts: Mapping[str, float | None]) -> dict[str, Any]:
    return {"step": step, **parts, "transport": None, "ideal": None, "achieved_over_ideal": None}


def _why(summary: Row, label: str) -> str:
    figures = _at(summary, "server", SPECULATIVE, label, "times", ROUND_PARTS["target"])
    reason = figures.get("reason") if isinstance(figures, Mapping) else None
    return reason or "the server's metrics were not read"


def _number(row: Row, *path: str) -> float | None:
    value = _at(row, *path)
    return float(value) if isinstance(value, (int, float)) else None


def _at(row: Any, *path: str) -> Any:
    for key in path:
        row = row.get(key) if isinstance(row, Mapping) else None
    return row
