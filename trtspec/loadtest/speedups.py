"""Speed-ups of pairs with their intervals, metric by metric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trtspec.loadtest.costs import HEADLINE, PAIR_COSTS, pair_costs
from trtspec.loadtest.intervals import Interval, ratio_interval, unknown
from trtspec.loadtest.pairing import Pairs
from trtspec.loadtest.unit_loads import throughput_costs
from trtspec.loadtest.units import Units, levels_of, units_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SCHEDULED", "STREAMING", "closed_throughput", "headline", "pair_speedup", "pair_speedups",
           "throughput_speedup"]  # fmt: skip

# metrics that need answers to arrive in more than one piece
STREAMING = frozenset({"time_per_output_token", "time_to_first_token"})
SCHEDULED = "in an open loop the schedule sets the throughput: compare latencies"


def headline(pairs: Pairs, units: Units | None = None) -> Interval:
    """The speed-up that verdicts rest on: of latency per token, per request where no tokens are counted."""
    units = units or units_of(pairs)
    counted = pair_speedup(pairs, HEADLINE, units)
    return counted if counted.count else pair_speedup(pairs, "request_latency", units)


def pair_speedups(pairs: Pairs, *, one_piece: bool, units: Units | None = None) -> dict[str, Interval]:
    """Metric → speed-up; streaming ones withheld where an arm answers in one piece."""
    units = units or units_of(pairs)
    return {
        name: unknown("an arm answers in one piece")
        if one_piece and name in STREAMING
        else pair_speedup(pairs, name, units)
        for name in PAIR_COSTS
    }


def pair_speedup(pairs: Pairs, metric: str, units: Units) -> Interval:
    """The speed-up of one metric, over the units of the pairs."""
    costs = pair_costs(pairs, PAIR_COSTS[metric])
    sums, strata = units.sums(costs)
    return ratio_interval(sums, strata=strata, count=_complete(costs), unit=units.word)


def throughput_speedup(pairs: Pairs, units: Units) -> Interval:
    """The speed-up of output tokens per second, over units: their active time counts, not that of their requests."""
    import numpy as np

    sums = throughput_costs(pairs, units)
    known = ~np.isnan(sums).any(axis=1)
    return ratio_interval(sums[known], strata=units.strata.select(known), count=int(known.sum()), unit=units.word)


def closed_throughput(pairs: Pairs) -> Interval:
    """`throughput_speedup` of the closed loops among the pairs' levels: open ones would pull it towards 1."""
    import numpy as np

    closed = [chosen for level, chosen in levels_of(pairs) if level.closed]
    if len(pairs) and not closed:
        return unknown(SCHEDULED)
    chosen = pairs.select(np.concatenate(closed)) if closed else pairs
    return throughput_speedup(chosen, units_of(chosen))


def _complete(costs: NDArray[Any]) -> int:
    import numpy as np

    return int((~np.isnan(costs).any(axis=1)).sum())
