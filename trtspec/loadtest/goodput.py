"""Requests that met every service level: how many per second, and what share, with an interval."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trtspec.loadtest.distribution import missing, scalar, share
from trtspec.loadtest.sample import Sample

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LEVELS", "Attempts", "goodput", "met", "service_levels"]

_NO_LEVELS = "no service levels were given"
_NO_COUNTS = "'tpot' cannot be judged: the server reports no token counts"


def _stall(sample: Sample) -> NDArray[Any]:
    """0 for an answer in one piece: nothing stalled."""
    import numpy as np

    return np.maximum(sample.column("max_stall_ns"), 0)


def _per_token(sample: Sample) -> NDArray[Any]:
    """NaN where tokens are not counted; 0 when all came with the first text: there was nothing to wait for."""
    import numpy as np

    after = sample.column("tokens_after_first")
    per_token = np.where(after > 0, sample.streamed_ns / np.maximum(after, 1), np.nan)
    return np.where((after == 0) | (sample.column("arrivals") == 1), 0.0, per_token)


# service level → ns of each request
LEVELS: dict[str, Callable[[Sample], NDArray[Any]]] = {
    "ttft": lambda sample: sample.ttft_ns,
    "tpot": _per_token,
    "e2e": lambda sample: sample.latency_ns,
    "stall": _stall,
}


@dataclass(frozen=True)
class Attempts:
    """The measured requests, and how many failed beside them: those met nothing."""

    sample: Sample
    failed: int


def service_levels(options: Mapping[str, Any]) -> dict[str, float]:
    """The service levels among a run's options (`slo`: seconds by name), unknown names and values left out."""
    given = options.get("slo")
    if not isinstance(given, Mapping):
        return {}
    return {name: float(given[name]) for name in LEVELS if _is_number(given.get(name))}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def met(sample: Sample, levels: Mapping[str, float]) -> NDArray[Any] | None:
    """Whether each request of a sample met every level; None when one cannot be judged."""
    import numpy as np

    good = np.ones(len(sample.rows), dtype=bool)
    for name, limit in levels.items():
        values = LEVELS[name](sample)
        if np.isnan(values.astype(float)).any():
            return None
        good &= values <= limit * 1e9
    return good


def goodput(attempts: Attempts, levels: Mapping[str, float], seconds: float) -> dict[str, Any]:
    """The row of goodput. **Formula:** requests that met every service level / active time.

    `share` is of all requests in the window, failed ones included, with its Wilson interval.
    """
    if not levels:
        return missing("requests/s", _NO_LEVELS, higher_is_better=True)
    good = met(attempts.sample, levels)
    count = len(attempts.sample.rows) + attempts.failed
    if good is None or not count:
        return {
            **missing("requests/s", _NO_COUNTS if count else "no requests", higher_is_better=True),
            "slo": dict(levels),
        }
    hits = int(good.sum())
    rate = hits / seconds if seconds > 0 else None
    return {
        **scalar(rate, "requests/s", count, "one value, no distribution"),
        "slo": dict(levels),
        "met": share(hits, count),
    }
