"""How many drafted tokens the target accepted: pooled over tokens, never averaged over requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trtspec.loadtest.records import Record
from trtspec.wire.messages import Counters

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


def acceptance(records: Sequence[Record], derived_length: float | None = None) -> dict[str, Any]:
    """The acceptance section of a summary, from the measured requests of the speculative arm.

    `source` is "server" with counters from the frontend, "derived" when only `derived_length` is known (tokens over
    the growth of the target's own request count), "none" with a `reason` else: absent is not zero.
    """
    counters = [record.server for record in records if _counts_rounds(record.server)]
    if counters:
        by_category = {name: pooled(r.server for r in records if r.category == name) for name in _categories(records)}
        total = pooled(counters)
        return {**total, "by_category": by_category, "source": "server", "reason": _why_no_rate(total)}
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


def derived_length(tokens: int | None, target_requests: int | None) -> float | None:
    """Mean acceptance length from outside. **Formula:** tokens / requests that the target model received for them.

    Only for servers without counters, where every round is one request to the target.
    """
    return tokens / target_requests if tokens and target_requests else None


def _counts_rounds(server: Counters | None) -> bool:
    return server is not None and server.num_spec_steps is not None


def _why_no_rate(total: Mapping[str, Any]) -> str | None:
    return None if total["num_draft_tokens"] else "no token was drafted"


def _categories(records: Iterable[Record]) -> list[str]:
    return sorted({record.category for record in records})


def pooled(counters: Iterable[Counters | None]) -> dict[str, Any]:
    """Sums over requests and what follows from them.

    **Formulas:** acceptance rate = accepted / drafted; mean acceptance length = 1 + accepted / rounds (the 1 is the
    token that the target adds itself).
    """
    known = [one for one in counters if one is not None and one.num_spec_steps is not None]
    if not known:
        return dict(_NONE)
    steps = sum(one.num_spec_steps or 0 for one in known)
    drafted = _sum([one.num_draft_tokens for one in known])
    accepted = _sum([one.num_accepted_tokens for one in known])
    histogram = _add([one.acceptance_histogram for one in known])
    return {
        "num_spec_steps": steps,
        "num_draft_tokens": drafted,
        "num_accepted_tokens": accepted,
        "acceptance_rate": accepted / drafted if accepted is not None and drafted else None,
        "mean_acceptance_length": 1 + accepted / steps if accepted is not None and steps else None,
        "acceptance_histogram": histogram,
        "per_position": per_position(histogram),
    }


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _add(histograms: Iterable[Sequence[int] | None]) -> list[int]:
    given = [histogram for histogram in histograms if histogram]
    size = max(map(len, given), default=0)
    return [sum(histogram[k] for histogram in given if k < len(histogram)) for k in range(size)]


def per_position(histogram: Sequence[int]) -> list[float]:
    """Share of rounds in which the token drafted at position 1, 2, … was accepted.

    **Formula:** rounds that accepted more than k tokens / all rounds, where `histogram[k]` counts the rounds that
    accepted exactly k. A last round that drafted fewer tokens, because its request was about to end, counts as not
    accepted beyond them.
    """
    rounds = sum(histogram)
    return [sum(histogram[k + 1 :]) / rounds for k in range(len(histogram) - 1)] if rounds else []
