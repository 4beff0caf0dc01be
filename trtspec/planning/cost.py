"""What tokens cost with and without speculation, and how many GPUs a load needs. Every price is the user's.

**Formulas:** cost per million output tokens = GPUs × price per hour × 10⁶ / (3600 × output tokens per second);
blended: the same over prompt and output tokens; replicas = ⌈load / requests per second of one deployment⌉; a month has
730 hours.
The speculative arm pays for every GPU that it occupies, those of a draft placed apart included.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trtspec.planning.speedup import Performance

__all__ = ["Arm", "ArmCost", "Deployment", "Prices", "cheapest", "cost_rows", "cost_summary"]

Arm = Literal["baseline", "speculative"]
HOURS_A_MONTH = 730
NO_PRICE = "no price: set hardware.price_per_hour or give --price"
NO_LOAD = "no load: set expectations.requests_per_second"


@dataclass(frozen=True)
class Prices:
    """Price of one GPU for an hour, the load, and the tokens of a request; None where not given."""

    gpu_hour: float | None
    requests_per_second: float | None
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Deployment:
    """One arm: its GPUs, and how many sequences fit at once by the memory plan (None: not planned)."""

    arm: Arm
    gpus: int
    max_concurrency: int | None


@dataclass(frozen=True)
class ArmCost:
    """An arm at a concurrency; None where a price or a load is missing, or where so many sequences do not fit."""

    arm: Arm
    concurrency: int
    gpus: int
    tokens_per_second: float
    per_million_output: float | None
    per_million_blended: float | None
    replicas: int | None
    fleet_gpus: int | None
    per_month: float | None
    fits: bool

    @property
    def tokens_per_second_per_gpu(self) -> float:
        """Output tokens per second of one GPU of the arm."""
        return self.tokens_per_second / self.gpus

    def to_json(self) -> dict[str, Any]:
        """All figures; prices in the user's currency."""
        return {
            "arm": self.arm,
            "concurrency": self.concurrency,
            "gpus": self.gpus,
            "output_tokens_per_second": self.tokens_per_second,
            "output_tokens_per_second_per_gpu": self.tokens_per_second_per_gpu,
            "per_million_output_tokens": self.per_million_output,
            "per_million_tokens_blended": self.per_million_blended,
            "replicas": self.replicas,
            "gpus_for_load": self.fleet_gpus,
            "per_month": self.per_month,
            "fits": self.fits,
        }


def cost_rows(performances: Sequence[Performance], deployment: Deployment, prices: Prices) -> tuple[ArmCost, ...]:
    """One row for each concurrency of an arm."""
    return tuple(_row(performance, deployment, prices) for performance in performances)


def _row(performance: Performance, deployment: Deployment, prices: Prices) -> ArmCost:
    million = _per_million(performance.tokens_per_second, deployment.gpus, prices.gpu_hour)
    share = prices.output_tokens / (prices.prompt_tokens + prices.output_tokens)
    load = prices.requests_per_second
    replicas = None if load is None else math.ceil(load / performance.requests_per_second - 1e-9)
    fleet = None if replicas is None else replicas * deployment.gpus
    limit = deployment.max_concurrency
    return ArmCost(
        arm=deployment.arm,
        concurrency=performance.concurrency,
        gpus=deployment.gpus,
        tokens_per_second=performance.tokens_per_second,
        per_million_output=million,
        per_million_blended=None if million is None else million * share,
        replicas=replicas,
        fleet_gpus=fleet,
        per_month=None if fleet is None or prices.gpu_hour is None else fleet * prices.gpu_hour * HOURS_A_MONTH,
        fits=limit is None or performance.concurrency <= limit,
    )


def _per_million(tokens_per_second: float, gpus: int, gpu_hour: float | None) -> float | None:
    return None if gpu_hour is None else gpus * gpu_hour * 1e6 / (3600 * tokens_per_second)


def cost_summary(
    rows: Sequence[ArmCost], prices: Prices, deployments: Sequence[Deployment], draft_share: float | None
) -> dict[str, Any]:
    """The cost section of a plan; `draft_share`: share of the planned GPU memory that the draft takes."""
    return {
        "price_per_gpu_hour": prices.gpu_hour,
        "price_reason": NO_PRICE if prices.gpu_hour is None else None,
        "requests_per_second": prices.requests_per_second,
        "load_reason": NO_LOAD if prices.requests_per_second is None else None,
        "hours_per_month": HOURS_A_MONTH,
        "draft_memory_share": draft_share,
        "deployments": {
            item.arm: {"gpus": item.gpus, "max_concurrent_sequences": item.max_concurrency} for item in deployments
        },
        "rows": [row.to_json() for row in rows],
        "best": {arm: _json(cheapest(rows, arm)) for arm in ("baseline", "speculative")},
    }


def cheapest(rows: Sequence[ArmCost], arm: str) -> ArmCost | None:
    """The arm's row with the most tokens per GPU among the concurrencies that fit; None when none does."""
    fitting = [row for row in rows if row.arm == arm and row.fits]
    return max(fitting, key=lambda row: row.tokens_per_second_per_gpu, default=None)


def _json(row: ArmCost | None) -> dict[str, Any] | None:
    return None if row is None else row.to_json()
