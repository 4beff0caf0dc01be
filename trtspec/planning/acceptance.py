"""How many tokens a round yields, from an acceptance that was measured or given.

Words: α is the chance that one drafted token is accepted when all before it were; the *acceptance rate* is what a
load test measures, accepted / drafted, pooled over rounds. They differ, because a round ends at its first rejection:
with i.i.d. acceptance and γ drafted tokens, rate = α(1 − α^γ) / ((1 − α)γ) ≤ α.

Source of the model: Leviathan, Kalman, Matias, "Fast Inference from Transformers via Speculative Decoding",
arXiv 2211.17192: equation 1 (tokens per round), theorem 3.8 (walltime), theorem 3.11 (operations).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = [
    "Acceptance",
    "Origin",
    "alpha_from_rate",
    "bisect",
    "expected_tokens",
    "histogram_shares",
    "operations_factor",
    "positions_from_alpha",
    "rate_from_alpha",
    "walltime_improvement",
]

Origin = Literal["spec", "option", "measured"]
# halvings of [0, 1]: closer than float rounding
_STEPS = 80


def expected_tokens(alpha: float, draft_length: int) -> float:
    """Mean tokens of a round, the target's own included: (1 − α^(γ+1)) / (1 − α), γ + 1 at α = 1 (equation 1)."""
    return 1.0 + sum(positions_from_alpha(alpha, draft_length))


def walltime_improvement(alpha: float, draft_length: int, cost_ratio: float) -> float:
    """Speed-up when a draft step costs `cost_ratio` of a target step and verifying costs one target step.

    **Formula:** (1 − α^(γ+1)) / ((1 − α)(γc + 1)) (theorem 3.8). Below 1 it is a loss.
    """
    return expected_tokens(alpha, draft_length) / (draft_length * cost_ratio + 1.0)


def operations_factor(alpha: float, draft_length: int, operations_ratio: float = 0.0) -> float:
    """Arithmetic per token against no speculation: (1 − α)(γĉ + γ + 1) / (1 − α^(γ+1)) (theorem 3.11)."""
    return (draft_length * operations_ratio + draft_length + 1) / expected_tokens(alpha, draft_length)


def positions_from_alpha(alpha: float, draft_length: int) -> tuple[float, ...]:
    """Share of rounds in which the token drafted at position 1 … γ is accepted: α, α², …, α^γ."""
    return tuple(alpha**position for position in range(1, draft_length + 1))


def histogram_shares(positions: Sequence[float]) -> tuple[float, ...]:
    """Share of rounds that accept exactly 0, 1, …, γ tokens, from the shares per position; they sum to 1."""
    bounds = (1.0, *positions, 0.0)
    return tuple(bounds[k] - bounds[k + 1] for k in range(len(positions) + 1))


def rate_from_alpha(alpha: float, draft_length: int) -> float:
    """The acceptance rate that a load test would measure at this draft length (≥ 1)."""
    return sum(positions_from_alpha(alpha, draft_length)) / draft_length


def alpha_from_rate(rate: float, draft_length: int) -> float:
    """The α at which `rate_from_alpha` gives `rate`; solved by bisection, the function being monotone."""
    return bisect(lambda alpha: rate_from_alpha(alpha, draft_length) - rate)


def bisect(function: Callable[[float], float]) -> float:
    """Where an increasing function of [0, 1] crosses 0; the nearer end when it does not."""
    low, high = 0.0, 1.0
    if function(low) >= 0:
        return low
    if function(high) <= 0:
        return high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if function(middle) >= 0 else (middle, high)
    return (low + high) / 2


@dataclass(frozen=True)
class Acceptance:
    """An acceptance that was measured or given.

    `rate` is accepted / drafted at `draft_length`; `positions` are measured shares of rounds by position where there
    are some. A round's expected tokens come from `positions` as far as they reach, and from α beyond.
    """

    rate: float
    draft_length: int
    origin: Origin
    positions: tuple[float, ...] = ()
    source: str = ""

    @property
    def alpha(self) -> float:
        """The α of i.i.d. acceptance that gives `rate` at `draft_length`."""
        return alpha_from_rate(self.rate, self.draft_length)

    def by_position(self, draft_length: int) -> tuple[float, ...]:
        """Share of rounds in which position 1 … γ is accepted: as measured, then falling by α a position."""
        known = list(self.positions[:draft_length])
        alpha = self.alpha
        while len(known) < draft_length:
            known.append((known[-1] if known else 1.0) * alpha)
        return tuple(known)

    def tokens_per_round(self, draft_length: int) -> float:
        """Mean tokens of a round of `draft_length` drafted tokens, the target's own included."""
        return 1.0 + sum(self.by_position(draft_length))

    def to_json(self) -> dict[str, Any]:
        """Rate, α, positions and where they come from."""
        return {
            "acceptance_rate": self.rate,
            "draft_length": self.draft_length,
            "alpha": self.alpha,
            "per_position": list(self.by_position(self.draft_length)),
            "measured_per_position": bool(self.positions),
            "acceptance_histogram": list(histogram_shares(self.by_position(self.draft_length))),
            "mean_acceptance_length": self.tokens_per_round(self.draft_length),
            "origin": self.origin,
            "source": self.source,
        }
