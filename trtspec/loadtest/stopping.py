"""When a level has been measured enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trtspec.loadtest.arrivals import Traffic
from trtspec.loadtest.records import Record

__all__ = ["MOST_ROUNDS", "Patience", "Watch", "most_rounds"]

# with --until, a level ends after so many times --requests even when the interval is still wide
MOST_ROUNDS = 20
# and when every prompt has been asked so often: more of the same says hardly more
_MOST_REPEATS = 3
# how many times as many blocks there must be before it is asked again: asking takes time
_ASK_AGAIN = 1.05


@dataclass(frozen=True)
class Patience:
    """How long a level goes on: by default for its requests.

    `duration`: for so many seconds of load on each arm. `until`: until the interval of the headline is so narrow, as a
    share of the speed-up. `one_round`: never beyond its requests.
    """

    duration: float | None = None
    until: float | None = None
    one_round: bool = False

    @property
    def open_ended(self) -> bool:
        """True when nobody knows beforehand how many requests there will be."""
        return self.duration is not None or self.until is not None


@dataclass
class Watch:
    """Watches one level; `records` gives what has been recorded of it. With --until it has `most_rounds` at most."""

    patience: Patience
    traffic: Traffic
    records: Callable[[], Sequence[Record]]
    most_rounds: int = MOST_ROUNDS
    _worked: float = 0.0
    _next_look: float = 0.0

    def worked(self, seconds: float) -> None:
        """An arm was under load for so long."""
        self._worked += seconds

    def enough(self, block: int) -> bool:
        """Whether to stop after block `block`; only after two, which have each arm first once."""
        if block % 2 == 0:
            return False
        return self._time_is_up() or self._is_narrow(block + 1)

    def another_round(self, number: int) -> bool:
        """Whether to go on with round `number` when the round before was not enough."""
        if self.patience.one_round or not self.patience.open_ended:
            return False
        return self.patience.duration is not None or number < self.most_rounds

    def _time_is_up(self) -> bool:
        # an open loop's schedule was cut at its duration
        duration = self.patience.duration if self.traffic.closed else None
        return duration is not None and self._worked >= 2 * duration

    def _is_narrow(self, blocks: int) -> bool:
        if self.patience.until is None or blocks < self._next_look:
            return False
        from trtspec.loadtest.sequential import earliest_stop, width_reached

        alone = self.traffic.closed and self.traffic.concurrency == 1
        # of a prompt that is a session a block has several turns, but never more than one prompt
        if blocks < earliest_stop(alone=alone):
            return False
        self._next_look = blocks * _ASK_AGAIN
        return width_reached(self.records(), self.patience.until)


def most_rounds(prompts: int, requests: int) -> int:
    """How many rounds of `requests` a level with --until has at most, when there are so many prompts."""
    return max(1, min(MOST_ROUNDS, math.ceil(_MOST_REPEATS * prompts / requests)))
