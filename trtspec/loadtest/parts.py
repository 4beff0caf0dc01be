"""One `measurement.json` for a run that was interrupted and gone on with: no count is passed off as the whole run's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Kept", "joined_measurement", "kept_loads"]

_LAGS = ("loop_lag", "send_lag")
_PARTLY = "the run was interrupted during this load: its counts are of a part of the requests only"


@dataclass(frozen=True)
class Kept:
    """The loads of which the earlier part's blocks stay: `whole` ones were not measured again, `partly` others were."""

    whole: frozenset[str] = frozenset()
    partly: frozenset[str] = frozenset()


def joined_measurement(before: Mapping[str, Any], now: Mapping[str, Any], kept: Kept) -> dict[str, Any]:
    """`now`, with what only the earlier part can say; each figure of the load generator is the worse one of both.

    Server counts of a load that both parts measured are None: they would be compared with all of its requests.
    """
    targets = before.get("targets") or {}
    changed = sorted(
        arm for arm, found in (now.get("targets") or {}).items() if arm in targets and _differs(targets[arm], found)
    )
    return {
        **now,
        "client": _worse(before.get("client") or {}, now.get("client") or {}),
        "servers": _rows(before, now, kept, "servers", {"frontend_requests": None, "target_requests": None}),
        "telemetry": _rows(
            before, now, kept, "telemetry", {"growth": [], "blocks": 0, "reset": False, "reason": _PARTLY}
        ),
        "cold_start": before.get("cold_start") or now.get("cold_start"),
        "resumed": {"parts": 1 + int((before.get("resumed") or {}).get("parts", 1)), "changed": changed},
    }


def _differs(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether another server answers now, or one with other settings; its address may be another one."""
    return any(one.get(name) != other.get(name) for name in ("kind", "model", "server", "configuration"))


def _rows(
    before: Mapping[str, Any], now: Mapping[str, Any], kept: Kept, name: str, unknown: Mapping[str, Any]
) -> list[dict[str, Any]]:
    old = [dict(row) for row in before.get(name) or () if row.get("load") in kept.whole]
    new = [dict(row) for row in now.get(name) or () if row.get("load") not in kept.whole]
    return [*old, *({**row, **unknown} if row.get("load") in kept.partly else row for row in new)]


def _worse(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(now)
    for name in _LAGS:
        found[name] = _larger(before.get(name), now.get(name), "p50")
    shares = [part["cpu_share"] for part in (before, now) if part.get("cpu_share") is not None]
    processes = [process for part in (before, now) for process in part.get("processes") or ()]
    return {**found, "cpu_share": max(shares, default=None), **({"processes": processes} if processes else {})}


def _larger(one: Any, other: Any, by: str) -> Any:
    rows: Sequence[Any] = [row for row in (one, other) if isinstance(row, Mapping) and row.get(by) is not None]
    return max(rows, key=lambda row: row[by]) if rows else other


def kept_loads(blocks: Iterable[tuple[str, Sequence[int]]], done: frozenset[tuple[str, int]]) -> Kept:
    """What is kept of each load, given by its label and the numbers of its blocks."""
    shares = {load: [(load, block) in done for block in numbers] for load, numbers in blocks}
    return Kept(
        frozenset(load for load, there in shares.items() if there and all(there)),
        frozenset(load for load, there in shares.items() if any(there) and not all(there)),
    )
