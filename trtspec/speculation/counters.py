"""Round accounting in integers, with identities that hold after every round."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

__all__ = ["Counters", "Lookups"]


@dataclass(frozen=True)
class Lookups:
    """Rounds whose draft was found in the text."""

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0


@dataclass(frozen=True)
class Counters:
    """What was drafted and accepted so far; a round without draft tokens is not counted.

    sum(histogram) = rounds, sum(k * histogram[k]) = accepted <= drafted. Accepted means: the target verified the
    token, also when a stop word then cut the text before it. `looked_up` are those of the rounds whose draft was found
    in the text; `misses` the times that nothing was.
    """

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    histogram: tuple[int, ...] = field(default=())
    fallbacks: int = 0
    reasons: tuple[str, ...] = ()  # of the fallbacks, in order
    looked_up: Lookups = Lookups()
    misses: int = 0

    @property
    def acceptance_rate(self) -> float:
        """accepted / drafted, pooled over tokens; 0.0 when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else 0.0

    def with_round(self, drafted: int, accepted: int, *, looked_up: bool = False) -> Counters:
        """Counters after one more round; unchanged when nothing was drafted."""
        if not 0 <= accepted <= drafted:
            raise ValueError(f"{accepted} accepted of {drafted} drafted")
        if drafted == 0:
            return self
        histogram = [*self.histogram, *[0] * (accepted + 1 - len(self.histogram))]
        histogram[accepted] += 1
        found = self.looked_up
        if looked_up:
            found = Lookups(found.rounds + 1, found.drafted + drafted, found.accepted + accepted)
        return replace(
            self,
            looked_up=found,
            rounds=self.rounds + 1,
            drafted=self.drafted + drafted,
            accepted=self.accepted + accepted,
            histogram=tuple(histogram),
        )

    def with_miss(self) -> Counters:
        """Counters after a lookup that found nothing."""
        return replace(self, misses=self.misses + 1)

    def with_fallback(self, reason: str) -> Counters:
        """Counters after a draft that could not be used."""
        return replace(self, fallbacks=self.fallbacks + 1, reasons=(*self.reasons, reason))
