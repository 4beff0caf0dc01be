"""How many tokens to draft in the next round: pure functions of what happened so far."""

from __future__ import annotations

from collections.abc import Callable

from .counters import Counters

__all__ = ["DraftPolicy", "clipped", "fixed_length"]

# A policy is asked before every round and answers with the wanted number of draft tokens; 0 means: none this round.
DraftPolicy = Callable[[Counters], int]


def fixed_length(length: int) -> DraftPolicy:
    """The policy that always wants `length` tokens."""

    def policy(counters: Counters) -> int:
        del counters
        return length

    return policy


def clipped(wanted: int, *, remaining: int, engine_limit: int | None) -> int:
    """`wanted` draft tokens, cut to the engine's limit and to what still fits.

    A round gives one token more than it drafts, so `remaining` output tokens leave room for remaining - 1.
    """
    limits = [wanted, remaining - 1] + ([] if engine_limit is None else [engine_limit])
    return max(0, min(limits))
