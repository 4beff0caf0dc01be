"""Whether the load generator's own error is small beside the effect that it measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trtspec.loadtest.costs import latency_ns
from trtspec.loadtest.pairing import Pairs
from trtspec.loadtest.verdict import NEGLIGIBLE
from trtspec.spec.names import ARMS, BASELINE_ARM, SPECULATIVE, Arm

__all__ = ["LIMIT", "ClientCheck", "check_client"]

# the client's median error may be this share of the effect
LIMIT = 0.10
# share of a CPU that a worker may use: above it, it has no time left to stamp arrivals when they come
_CPU = 0.95


@dataclass(frozen=True)
class ClientCheck:
    """The client's median error and what it may be, in seconds; None where nothing tells.

    `reason` says why the level is client-bound; None when it is not or cannot be known.
    """

    error: float | None
    limit: float | None
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        """For `client_bound.by_load`."""
        bound = None if self.error is None and self.reason is None else self.reason is not None
        return {"bound": bound, "error": self.error, "limit": self.limit, "unit": "s", "reason": self.reason}


def check_client(pairs: Pairs, client: Mapping[str, Any]) -> ClientCheck:
    """The check for the pairs of one level.

    **Formula:** bound when the error (the larger of the medians of loop lag and send lag) is more than 10 % of
    max(|difference of the arms' mean request latencies|, 5 % of the baseline's), the second being what counts as no
    difference. Also when the generator used nearly a whole CPU.
    """
    error, limit = _error(pairs, client), _limit(pairs)
    share = _busiest(client)
    if share is not None and share > _CPU:
        return ClientCheck(error, limit, f"a load generator process used {share:.0%} of a CPU and could not keep up")
    if error is None or limit is None or error <= limit:
        return ClientCheck(error, limit, None)
    text = f"the load generator itself is {error * 1e3:.1f} ms late (median), {limit * 1e3:.1f} ms would be tolerable"
    return ClientCheck(error, limit, f"{text} beside this effect")


def _busiest(client: Mapping[str, Any]) -> float | None:
    """CPU share of the busiest process: with several, `cpu_share` is their sum and `processes` has each one's."""
    shares = [process.get("cpu_share") for process in client.get("processes") or [client]]
    return max((float(share) for share in shares if isinstance(share, (int, float))), default=None)


def _error(pairs: Pairs, client: Mapping[str, Any]) -> float | None:
    lags = [(client.get(name) or {}).get("p50") for name in ("loop_lag", "send_lag")]
    known = [float(lag) for lag in lags if isinstance(lag, (int, float))]
    own = _send_lag(pairs)
    return max([*known, own], default=None) if known or own > 0 else None


def _send_lag(pairs: Pairs) -> float:
    """Median seconds between when requests should have been sent and when they were; 0 in a closed loop."""
    import numpy as np

    table = pairs.table
    lags = [table.start_ns[pairs.rows(arm)] - table.origin_ns[pairs.rows(arm)] for arm in ARMS]
    return float(np.median(np.concatenate(lags))) * 1e-9 if len(pairs) else 0.0


def _limit(pairs: Pairs) -> float | None:
    baseline, speculative = _mean_latency(pairs, BASELINE_ARM), _mean_latency(pairs, SPECULATIVE)
    if baseline is None or speculative is None:
        return None
    return LIMIT * max(abs(baseline - speculative), NEGLIGIBLE * baseline)


def _mean_latency(pairs: Pairs, arm: Arm) -> float | None:
    import numpy as np

    latencies = latency_ns(pairs.table, pairs.rows(arm))
    latencies = latencies[~np.isnan(latencies)]
    return float(latencies.mean()) * 1e-9 if len(latencies) else None
