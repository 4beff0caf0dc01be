"""What one answer of one contender took."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Passes", "Sample", "Stopwatch", "pooled"]


@dataclass(frozen=True)
class Passes:
    """Time inside the networks' forward passes after the first text: seconds, and how many passes."""

    target_seconds: float = 0.0
    target: int = 0
    draft_seconds: float = 0.0
    draft: int = 0

    def plus(self, other: Passes) -> Passes:
        """Both together."""
        return Passes(*(a + b for a, b in zip(asdict(self).values(), asdict(other).values(), strict=True)))

    def minus(self, other: Passes) -> Passes:
        """What came after `other`."""
        return Passes(*(a - b for a, b in zip(asdict(self).values(), asdict(other).values(), strict=True)))


@dataclass(frozen=True)
class Sample:
    """One answer. `decode` seconds bring `decode_tokens`: what comes after the first text."""

    contender: str
    prompt: str
    category: str
    seconds: float
    decode: float
    tokens: int
    decode_tokens: int
    text: str
    rounds: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    passes: Passes | None = None

    def to_json(self) -> dict[str, Any]:
        """For the file of raw results."""
        return asdict(self)


@dataclass
class Stopwatch:
    """Times of one answer: started when made, `saw` at every piece of it."""

    begin: float = field(default_factory=time.perf_counter)
    first: float | None = None
    first_tokens: int = 0
    last: float = 0.0

    def saw(self, tokens: int, at: float | None = None) -> None:
        """`tokens` of the answer are there in total."""
        self.last = time.perf_counter() if at is None else at
        if self.first is None and tokens:
            self.first, self.first_tokens = self.last, tokens

    def times(self, tokens: int) -> dict[str, Any]:
        """The four fields of a Sample for an answer of `tokens`."""
        first = self.last if self.first is None else self.first
        return {
            "seconds": self.last - self.begin,
            "decode": self.last - first,
            "tokens": tokens,
            "decode_tokens": tokens - self.first_tokens,
        }


def pooled(samples: Sequence[Sample], name: str) -> float:
    """The sum of a field, what is unknown left out."""
    return float(sum(getattr(sample, name) or 0 for sample in samples))
