"""Where a speed-up comes from and where it goes: tokens per round, cost of a round, uneven rounds, first token.

    predicted speed-up = tokens per round / (1 + c)
    measured = tokens per round x 1/(1 + c) x uneven rounds x first token and ending

c is what a round of speculation costs more than a step of the baseline, in steps: drafting, verifying several tokens at
once, and the calls between.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trtspec.loadtest.costs import HEADLINE, PAIR_COSTS, pair_costs
from trtspec.loadtest.intervals import Interval
from trtspec.loadtest.pairing import Pairs
from trtspec.spec.names import BASELINE_ARM, SPECULATIVE, Arm

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Efficiency", "efficiency", "rounds_after_first"]

# a wait of so many times the mean one is a stall
_STALL = 3.0
# a part with this share of the way from the predicted to the measured speed-up is named in the verdict
_NAMED = 1 / 3


@dataclass(frozen=True)
class Efficiency:
    """The parts of one level's speed-up; None with a `reason` where streams do not tell.

    `source` is "server" where its counters gave the rounds, "chunks" where each text was taken for a round.
    """

    tokens_per_round: float | None = None
    round_cost: float | None = None
    decode: float | None = None
    measured: float | None = None
    source: str = "none"
    reason: str | None = None

    @property
    def predicted(self) -> float | None:
        """**Formula:** tokens per round / round cost, where round cost = 1 + c."""
        if self.tokens_per_round is None or not self.round_cost:
            return None
        return self.tokens_per_round / self.round_cost

    def to_json(self) -> dict[str, Any]:
        """For `predicted.by_load`; the factors multiply to `measured`."""
        predicted, factors = self.predicted, None
        if predicted and self.decode and self.measured and self.tokens_per_round and self.round_cost:
            factors = {
                "tokens_per_round": self.tokens_per_round,
                "round_cost": 1 / self.round_cost,
                "uneven_rounds": self.decode / predicted,
                "first_token_and_ending": self.measured / self.decode,
            }
        return {
            "tokens_per_round": self.tokens_per_round,
            "round_cost": self.round_cost,
            "predicted": predicted,
            "decode": self.decode,
            "measured": self.measured,
            "gap": None if predicted is None or self.measured is None else self.measured / predicted - 1,
            "factors": factors,
            "source": self.source,
            "reason": self.reason,
        }

    def sentence(self, told: float | None = None) -> str | None:
        """Why the speed-up is what it is, for the verdict; `told` is the number that stands there already."""
        if self.predicted is None or self.measured is None or self.tokens_per_round is None:
            return None
        cost = f"takes as long as {self.round_cost:.2f} baseline steps"
        text = f"a round brings {self.tokens_per_round:.2f} tokens and {cost}"
        if abs(self.measured / self.predicted - 1) <= 0.05:
            return text
        made = f"{text}, which alone would be {self.predicted:.2f} times; {self._rest()} make it {self.measured:.2f}"
        apart = told is not None and abs(told - self.measured) >= 0.01
        return f"{made} (in those pairs whose rounds are known)" if apart else made

    def _rest(self) -> str:
        """What leads from the predicted speed-up to the measured one: whatever is at least a third of the way."""
        assert self.decode
        assert self.predicted
        assert self.measured
        way = math.log(self.measured / self.predicted)
        parts = {
            "uneven rounds": math.log(self.decode / self.predicted) / way,
            "the first token and the ending": math.log(self.measured / self.decode) / way,
        }
        return ", ".join(name for name, share in parts.items() if share >= _NAMED)


def efficiency(pairs: Pairs, measured: Interval) -> Efficiency:
    """The parts for the pairs of one level whose headline speed-up is `measured`.

    The cost of a round is the median over pairs of (decoding time / rounds) of the speculative answer over (decoding
    time / tokens) of the baseline's, stalls left out of both: they show up as `uneven_rounds`.
    """
    import numpy as np

    costs = pair_costs(pairs, PAIR_COSTS["time_per_output_token"])
    rounds, source = rounds_after_first(pairs)
    with np.errstate(divide="ignore", invalid="ignore"):
        cost = (_without_stall(pairs, SPECULATIVE) / rounds) / (_without_stall(pairs, BASELINE_ARM) / costs[:, 1])
    usable = np.isfinite(cost) & (cost > 0) & ~np.isnan(costs).any(axis=1)
    if not usable.any():
        return Efficiency(measured=measured.estimate, reason="no tokens counted per chunk, or answers in one piece")
    total = costs[usable].sum(axis=0)
    return Efficiency(
        tokens_per_round=float(total[3] / rounds[usable].sum()),
        round_cost=float(np.median(cost[usable])),
        decode=float((total[0] / total[1]) / (total[2] / total[3])),
        measured=_same_pairs(pairs, usable) if measured.estimate is not None else None,
        source=source,
    )


def _without_stall(pairs: Pairs, arm: Arm) -> NDArray[Any]:
    """Time from first to last text; a longest wait of over three times the mean one counts as the mean of the rest."""
    import numpy as np

    table, rows = pairs.table, pairs.rows(arm)
    whole = (table.last_ns[rows] - table.first_ns[rows]).astype(float)
    gaps, longest = np.maximum(table.arrivals[rows] - 1.0, 1.0), table.max_stall_ns[rows].astype(float)
    rest = (whole - longest) / np.maximum(gaps - 1, 1)
    return np.where((gaps > 1) & (longest > _STALL * whole / gaps), rest * gaps, whole)


def _same_pairs(pairs: Pairs, usable: NDArray[Any]) -> float | None:
    """The headline of the pairs that the parts are taken from, so that the factors multiply to it."""
    import numpy as np

    costs = pair_costs(pairs, PAIR_COSTS[HEADLINE])[usable]
    total = costs[~np.isnan(costs).any(axis=1)].sum(axis=0)
    return float((total[0] / total[1]) / (total[2] / total[3])) if (total > 0).all() else None


def rounds_after_first(pairs: Pairs) -> tuple[NDArray[Any], str]:
    """Rounds between the first and the last text of every speculative answer, NaN where there are none; the source.

    **Formula:** tokens - accepted - 1 with the server's counters (each pass of the target adds one token of its own,
    and the first pass brought the first text), else texts - 1.
    """
    import numpy as np

    table, rows = pairs.table, pairs.speculative
    accepted, tokens = table.accepted[rows], table.tokens[rows]
    counted = (accepted >= 0) & (tokens > 0)
    rounds = np.where(counted, tokens - accepted - 1, table.arrivals[rows] - 1).astype(float)
    return np.where(rounds >= 1, rounds, np.nan), "server" if counted.all() and len(rows) else "chunks"
