"""Where speculation stops paying: the acceptance below which it loses, and the concurrency above which it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trtspec.planning.acceptance import Acceptance, bisect, expected_tokens, rate_from_alpha
from trtspec.planning.speedup import SpeedModel

__all__ = ["HIGHEST", "BreakEvenAcceptance", "BreakEvenConcurrency", "break_even_acceptance", "break_even_concurrency"]

# no deployment has more requests in flight in one server
HIGHEST = 4096


@dataclass(frozen=True)
class BreakEvenAcceptance:
    """The acceptance at which the speed-up is 1, as `rate` of a load test and as `alpha`; None with the reason."""

    tokens_per_round: float | None
    alpha: float | None
    rate: float | None
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        """All of it; null where there is none."""
        return {
            "tokens_per_round": self.tokens_per_round,
            "alpha": self.alpha,
            "acceptance_rate": self.rate,
            "reason": self.reason,
        }


def break_even_acceptance(model: SpeedModel, concurrency: int, draft_length: int) -> BreakEvenAcceptance:
    """The acceptance that speculation needs to be no loss; it takes none for granted.

    **Formula:** rounds that fit in the baseline's latency: R = 1 + (baseline − fixed part) / round; tokens a round
    E = output / R; α solves E = (1 − α^(γ+1)) / (1 − α).
    """
    left = model.baseline(concurrency).request_latency - model.fixed_latency(concurrency, draft_length)
    rounds = 1 + left / model.round_time(concurrency, draft_length).seconds
    needed = model.traffic.output_tokens / rounds if left >= 0 else float("inf")
    if needed > draft_length + 1:
        return BreakEvenAcceptance(None, None, None, "a loss even when every drafted token is accepted")
    if needed < 1:
        return BreakEvenAcceptance(1.0, 0.0, 0.0, "no loss even when no drafted token is accepted")
    alpha = bisect(lambda value: expected_tokens(value, draft_length) - needed)
    return BreakEvenAcceptance(needed, alpha, rate_from_alpha(alpha, draft_length))


@dataclass(frozen=True)
class BreakEvenConcurrency:
    """The highest concurrency up to which the speed-up is at least 1; None with the reason.

    `since` is the lowest: 1, or more for experts, of which verifying a few tokens touches many at small batches.
    """

    concurrency: int | None
    reason: str | None = None
    since: int | None = None

    def to_json(self) -> dict[str, Any]:
        """All three."""
        return {"concurrency": self.concurrency, "since": self.since, "reason": self.reason}


def break_even_concurrency(model: SpeedModel, acceptance: Acceptance, draft_length: int) -> BreakEvenConcurrency:
    """Looked for at powers of two up to `HIGHEST`, then by halving where the speed-up crosses 1."""
    tokens = acceptance.tokens_per_round(draft_length)

    def pays(concurrency: int) -> bool:
        return model.speedup(concurrency, draft_length, tokens) >= 1

    powers = [1 << power for power in range(HIGHEST.bit_length())]
    paying = [concurrency for concurrency in powers if pays(concurrency)]
    if not paying:
        return BreakEvenConcurrency(None, "a loss at every concurrency")
    first, last = paying[0], paying[-1]
    since = 1 if first == 1 else _crossing(first, first // 2, pays)
    if last == powers[-1]:
        return BreakEvenConcurrency(None, f"no loss up to concurrency {HIGHEST}", since)
    return BreakEvenConcurrency(_crossing(last, last * 2, pays), None, since)


def _crossing(inside: int, outside: int, pays: Callable[[int], bool]) -> int:
    """The last number from `inside` towards `outside` that pays."""
    while abs(outside - inside) > 1:
        middle = (inside + outside) // 2
        inside, outside = (middle, outside) if pays(middle) else (inside, middle)
    return inside
