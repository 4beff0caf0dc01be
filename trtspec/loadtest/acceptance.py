"""How many drafted tokens the target accepted: pooled over tokens, never averaged over requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trtspec.loadtest.drafters import by_drafter
from trtspec.loadtest.table import UNKNOWN, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["acceptance", "derived_length", "per_position", "pooled"]

_NONE: dict[str, Any] = {
    "num_spec_steps": None,
    "num_draft_tokens": None,
    "num_accepted_tokens": None,
    "acceptance_rate": None,
    "mean_acceptance_length": None,
    "acceptance_histogram": [],
    "per_position": [],
}


def acceptance(table: Table, rows: NDArray[Any], derived_length: float | None = None) -> dict[str, Any]:
    """The acceptance section of a summary, from the measured requests of the speculative arm.

    `source` is "server" with counters from the frontend, "derived" when only `derived_length` is known (tokens over
    the growth of the target's own request count), "none" with a `reason` else: absent is not zero.
    """
    if _counted(table, rows).any():
        total = pooled(table, rows)
        told = {**total, "by_category": _by_category(table, rows), "source": "server", "reason": _why_no_rate(total)}
        return _with_drafters(told, table, rows)
    if derived_length is not None:
        reason = "the frontend reports no counters: tokens divided by the growth of the target's request count"
        return {
            **_NONE,
            "mean_acceptance_length": derived_length,
            "by_category": {},
            "source": "derived",
            "reason": reason,
        }
    return {**_NONE, "by_category": {}, "source": "none", "reason": "not available: the server reports no counters"}


def _counted(table: Table, rows: NDArray[Any]) -> NDArray[Any]:
    """True for requests whose server counted rounds, or drafted tokens alone (OpenAI-compatible ones)."""
    known: NDArray[Any] = (table.steps[rows] != UNKNOWN) | (table.drafted[rows] != UNKNOWN)
    return known


def _by_category(table: Table, rows: NDArray[Any]) -> dict[str, dict[str, Any]]:
    import numpy as np

    categories = table.category[rows]
    codes = sorted(np.unique(categories).tolist(), key=lambda code: table.names[code])
    return {table.names[code]: pooled(table, rows[categories == code]) for code in codes}


def _with_drafters(told: dict[str, Any], table: Table, rows: NDArray[Any]) -> dict[str, Any]:
    """`told` with `by_drafter` in it and in its categories, where the server looks drafts up in the text."""
    known = rows[_counted(table, rows)]
    whole = by_drafter(table, known)
    if not whole:
        return told
    for name, part in told["by_category"].items():
        found = by_drafter(table, known[table.category[known] == table.code(name)], tuple(whole))
        told["by_category"][name] = {**part, **({"by_drafter": found} if found else {})}
    return {**told, "by_drafter": whole}


def derived_length(tokens: int | None, target_requests: int | None) -> float | None:
    """Mean acceptance length from outside. **Formula:** tokens / requests that the target model received for them.

    Only for servers without counters, where every round is one request to the target.
    """
    return tokens / target_requests if tokens and target_requests else None


def _why_no_rate(total: dict[str, Any]) -> str | None:
    if not total["num_draft_tokens"]:
        return "no token was drafted"
    return None if total["num_spec_steps"] is not None else "not available: the server does not count rounds"


def pooled(table: Table, rows: NDArray[Any]) -> dict[str, Any]:
    """Sums over the requests that have counters, and what follows from them.

    **Formulas:** acceptance rate = accepted / drafted; mean acceptance length = 1 + accepted / rounds (the 1 is the
    token that the target adds itself).
    """
    known = rows[_counted(table, rows)]
    if not len(known):
        return dict(_NONE)
    steps = _sum(table.steps[known])
    drafted, accepted = _sum(table.drafted[known]), _sum(table.accepted[known])
    histogram = _histogram(table, known)
    return {
        "num_spec_steps": steps,
        "num_draft_tokens": drafted,
        "num_accepted_tokens": accepted,
        "acceptance_rate": accepted / drafted if accepted is not None and drafted else None,
        "mean_acceptance_length": 1 + accepted / steps if accepted is not None and steps else None,
        "acceptance_histogram": histogram,
        "per_position": per_position(histogram),
    }


def _sum(counts: NDArray[Any]) -> int | None:
    return None if (counts == UNKNOWN).any() else int(counts.sum())


def _histogram(table: Table, rows: NDArray[Any]) -> list[int]:
    """The rows' histograms added up."""
    import numpy as np

    mine = np.zeros(len(table), dtype=bool)
    mine[rows] = True
    sizes = np.diff(table.histogram_offsets)
    position = np.arange(len(table.histogram)) - np.repeat(table.histogram_offsets[:-1], sizes)
    chosen = np.repeat(mine, sizes)
    total = np.bincount(position[chosen], weights=table.histogram[chosen])
    return [int(count) for count in total.tolist()]


def per_position(histogram: Sequence[int]) -> list[float]:
    """Share of rounds in which the token drafted at position 1, 2, … was accepted.

    **Formula:** rounds that accepted more than k tokens / all rounds, where `histogram[k]` counts the rounds that
    accepted exactly k. A last round that drafted fewer tokens, because its request was about to end, counts as not
    accepted beyond them.
    """
    rounds = sum(histogram)
    return [sum(histogram[k + 1 :]) / rounds for k in range(len(histogram) - 1)] if rounds else []
