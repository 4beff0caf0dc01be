"""Does acceptance explain the speed-up, and what does acceptance go with?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from trtspec.loadtest.costs import HEADLINE, PAIR_COSTS, pair_values
from trtspec.loadtest.intervals import CONFIDENCE
from trtspec.loadtest.pairing import Pairs
from trtspec.loadtest.table import Table
from trtspec.loadtest.units import levels_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["acceptance_per_request", "correlations", "spearman", "thinned"]

# more pairs than these say nothing new; neighbours are left out evenly
_ENOUGH = 20_000
_POINTS = 400
_FEWEST = 8


def acceptance_per_request(table: Table, rows: NDArray[Any]) -> tuple[NDArray[Any], str]:
    """Tokens per round of every answer, NaN where unknown, and the source.

    **Formula:** 1 + accepted / rounds with the server's counters ("server"); where no answer has them the mean tokens
    per text ("chunks"), a stand-in that is right when every round is sent at once.
    """
    import numpy as np

    steps, accepted = table.steps[rows].astype(float), table.accepted[rows].astype(float)
    if (steps > 0).any():
        return np.where((steps > 0) & (accepted >= 0), 1 + accepted / np.where(steps > 0, steps, 1), np.nan), "server"
    arrivals, tokens = table.arrivals[rows].astype(float), table.tokens[rows].astype(float)
    return np.where((arrivals > 1) & (tokens > 0), tokens / np.maximum(arrivals, 1), np.nan), "chunks"


def correlations(pairs: Pairs, temperature: float | None) -> dict[str, Any]:
    """The `correlation` section: acceptance against speed-up, prompt length, output length and temperature."""
    pairs = pairs.select(thinned(len(pairs)))
    table, rows = pairs.table, pairs.speculative
    accepted, source = acceptance_per_request(table, rows)
    levels = [chosen for _, chosen in levels_of(pairs)]
    known = {
        "acceptance_speedup": pair_values(pairs, PAIR_COSTS[HEADLINE]),
        "acceptance_prompt_tokens": _counted(table.input_tokens[rows]),
        "acceptance_output_tokens": _counted(table.tokens[rows]),
    }
    found = {name: {**spearman(accepted, other, levels), "source": source} for name, other in known.items()}
    found["acceptance_speedup"]["points"] = _points(accepted, known["acceptance_speedup"])
    shown = "one temperature" if temperature is None else f"one temperature ({temperature:g})"
    found["acceptance_temperature"] = _absent(f"the run has {shown}; compare runs", len(accepted))
    return found


def spearman(one: NDArray[Any], other: NDArray[Any], levels: list[NDArray[Any]]) -> dict[str, Any]:
    """Spearman's rank correlation with its 95 % interval; ranks are taken within each level.

    Of one level it is scipy's `spearmanr`, without the second that importing scipy.stats takes.

    Interval: Fisher's transformation with Bonett and Wright's (2000) standard error, √((1 + ρ²/2) / (n - 3)).
    """
    import numpy as np

    whole = np.isfinite(one) & np.isfinite(other)
    parts = [chosen[whole[chosen]] for chosen in levels]
    count = sum(map(len, parts))
    if count < _FEWEST:
        return _absent(f"needs {_FEWEST} answers in which both are known", count)
    first, second = (
        np.concatenate([_ranks(values[part]) / (len(part) + 1) for part in parts if len(part)])
        for values in (one, other)
    )
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return _absent("one of the two is the same in all answers", count)
    rho = float(np.corrcoef(first, second)[0, 1])
    reach = 1.959964 * math.sqrt((1 + rho * rho / 2) / (count - 3))
    middle = math.atanh(max(-0.999999, min(0.999999, rho)))
    low, high = math.tanh(middle - reach), math.tanh(middle + reach)
    return {"rho": rho, "low": low, "high": high, "confidence": CONFIDENCE, "count": count, "reason": None}


def _ranks(values: NDArray[Any]) -> NDArray[Any]:
    """Ranks from 1, equal values sharing their mean rank."""
    import numpy as np

    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    found: NDArray[Any] = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return found


def _absent(reason: str, count: int) -> dict[str, Any]:
    return {"rho": None, "low": None, "high": None, "confidence": CONFIDENCE, "count": count, "reason": reason}


def thinned(count: int, most: int = _ENOUGH) -> NDArray[Any]:
    """Indices of at most `most` of `count` things, evenly spread."""
    import numpy as np

    return np.arange(count) if count <= most else np.arange(most) * count // most


def _counted(counts: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    return np.where(counts >= 0, counts.astype(float), np.nan)


def _points(one: NDArray[Any], other: NDArray[Any]) -> list[list[float]]:
    """At most 400 pairs of values for a picture."""
    import numpy as np

    both = np.stack([one, other], axis=1)
    both = both[np.isfinite(both).all(axis=1)]
    shown: list[list[float]] = both[thinned(len(both), _POINTS)].tolist()
    return shown
