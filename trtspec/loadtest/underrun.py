"""How smooth an answer reads: does the next text come before a reader has read what is there?

Two servers with the same time per token may differ here: speculation delivers in bursts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from trtspec.loadtest.distribution import share
from trtspec.loadtest.sample import Sample

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["READING_SPEED", "ReadingSample", "underrun_share", "underruns"]

READING_SPEED = 15.0
"""tokens per second; a person reads about 4 to 8 words a second at most, and a word is 1.3 to 2 tokens"""


@dataclass(frozen=True)
class ReadingSample(Sample):
    """A sample with the speed at which its texts are read, in tokens per second."""

    reading_speed: float = READING_SPEED

    @cached_property
    def waits(self) -> Waits:
        """How long each row's reader waits."""
        return _waits(self, self.reading_speed)


@dataclass(frozen=True)
class Waits:
    """Per row: ns waited, and whether every text but the last is counted (of more than one text)."""

    waited: NDArray[Any]
    counted: NDArray[Any]


def _waits_of(sample: Sample) -> Waits:
    return sample.waits if isinstance(sample, ReadingSample) else _waits(sample, READING_SPEED)


def underrun_share(sample: Sample) -> NDArray[Any]:
    """Share of the stream's time in which a reader has read everything and waits. **Formula:** Σ w[i] / (cm - c1).

    The reader begins at c1 and reads v tokens per second: r[1] = c1 + k1 / v, r[i] = max(r[i-1], c[i]) + k[i] / v, and
    waits w[i] = max(0, c[i] - r[i-1]).
    """
    waits, elapsed = _waits_of(sample), sample.streamed_ns
    whole = waits.counted & (elapsed > 0)
    shares: NDArray[Any] = waits.waited[whole] / elapsed[whole]
    return shares


def underruns(sample: ReadingSample) -> dict[str, Any]:
    """Share of the requests whose reader had to wait at all, with its 95 % interval, and the reading speed."""
    waits = sample.waits
    found = share(int((waits.waited[waits.counted] > 0).sum()), int(waits.counted.sum()))
    reason = None if found["count"] else "no streamed answer with token counts"
    return {"reading_speed": sample.reading_speed, **found, "reason": reason}


def _waits(sample: Sample, reading_speed: float) -> Waits:
    """How long each row's reader waits, going from text to text of all rows together.

    The rows with the most texts come first, so that those that have a further one are always the first few.
    """
    import numpy as np

    arrivals = np.diff(sample.starts)
    order = np.argsort(-arrivals, kind="stable")
    begin, length = sample.starts[:-1][order], arrivals[order]
    per_token = 1e9 / reading_speed
    read = np.zeros(len(order))
    waited = np.zeros(len(order))
    counted = length > 1
    for place in range(int(length[0]) if len(length) else 0):
        going = int(np.searchsorted(-length, -place, side="left"))
        at = begin[:going] + place
        times, tokens = sample.times[at], sample.tokens[at]
        if place:
            waited[:going] += np.maximum(0, times - read[:going])
        counted[:going] &= (tokens >= 0) | (length[:going] == place + 1)
        read[:going] = np.maximum(read[:going], times) + np.maximum(tokens, 0) * per_token
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    return Waits(waited[back], counted[back])
