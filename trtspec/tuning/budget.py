"""How much of a search fits into its time. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["FINAL_SHARE", "Clock"]

FINAL_SHARE = 0.3
"""of the budget is kept for measuring the winners again"""


@dataclass
class Clock:
    """Adds up the seconds of measuring; `costs` are (blocks, seconds) of every "level: candidate"."""

    budget: float
    spent: float = 0.0
    costs: dict[str, tuple[int, float]] = field(default_factory=dict)

    def took(self, label: str, candidate: str, seconds: float) -> None:
        """A candidate's half of a block took so long."""
        self.spent += seconds
        count, total = self.costs.get(f"{label}: {candidate}", (0, 0.0))
        self.costs[f"{label}: {candidate}"] = count + 1, total + seconds

    @property
    def left(self) -> float:
        """Seconds of the whole budget that are left, never below 0."""
        return max(0.0, self.budget - self.spent)

    @property
    def search_left(self) -> float:
        """Of what the search may use."""
        return max(0.0, self.budget * (1 - FINAL_SHARE) - self.spent)

    def cost(self, label: str, candidates: Iterable[str]) -> float:
        """Seconds that a block of `candidates` takes by the blocks so far; those not measured yet count as 0."""
        known = (self.costs.get(f"{label}: {candidate}") for candidate in candidates)
        return sum(total / count for count, total in filter(None, known))
