"""Time over work of every pair, for every metric that a speed-up is given of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trtspec.loadtest.pairing import Pairs
from trtspec.loadtest.table import NEVER, Table
from trtspec.spec.names import BASELINE_ARM, SPECULATIVE

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HEADLINE", "PAIR_COSTS", "Cost", "latency_ns", "pair_costs", "pair_values"]

# the metric that verdicts rest on: what a user waits for, freed of answers' lengths
HEADLINE = "latency_per_token"


@dataclass(frozen=True)
class Cost:
    """Time (ns) and work of the requests in `rows` of a table; NaN where it was not measured."""

    time: NDArray[Any]
    work: NDArray[Any]


Measure = Callable[[Table, "NDArray[Any]"], Cost]


def latency_ns(table: Table, rows: NDArray[Any]) -> NDArray[Any]:
    """Until the last text, from when the request should have been sent; NaN without text."""
    return _since(table.last_ns[rows], table.origin_ns[rows])


def _since(later: NDArray[Any], earlier: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    return np.where(later == NEVER, np.nan, (later - earlier).astype(float))


def _positive(counts: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    return np.where(counts > 0, counts.astype(float), np.nan)


def _latency(table: Table, rows: NDArray[Any]) -> Cost:
    time = latency_ns(table, rows)
    return Cost(time, time * 0 + 1)


def _latency_per_token(table: Table, rows: NDArray[Any]) -> Cost:
    return Cost(latency_ns(table, rows), _positive(table.tokens[rows]))


def _time_to_first(table: Table, rows: NDArray[Any]) -> Cost:
    time = _since(table.first_ns[rows], table.origin_ns[rows])
    return Cost(time, time * 0 + 1)


def _time_per_token(table: Table, rows: NDArray[Any]) -> Cost:
    return Cost(_since(table.last_ns[rows], table.first_ns[rows]), _positive(table.tokens_after_first[rows]))


PAIR_COSTS: dict[str, Measure] = {
    "request_latency": _latency,
    HEADLINE: _latency_per_token,
    "time_per_output_token": _time_per_token,
    "time_to_first_token": _time_to_first,
}


def pair_costs(pairs: Pairs, measure: Measure) -> NDArray[Any]:
    """[pairs, 4]: time and work of the baseline, then of the speculative arm; NaN where an arm did not measure it."""
    import numpy as np

    both = [measure(pairs.table, pairs.rows(arm)) for arm in (BASELINE_ARM, SPECULATIVE)]
    return np.stack([column for cost in both for column in (cost.time, cost.work)], axis=1)


def pair_values(pairs: Pairs, measure: Measure) -> NDArray[Any]:
    """How many times faster each pair is on its own; NaN where it cannot be told."""
    import numpy as np

    costs = pair_costs(pairs, measure)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: NDArray[Any] = (costs[:, 0] / costs[:, 1]) / (costs[:, 2] / costs[:, 3])
    return np.where(np.isfinite(found), found, np.nan)
