"""How a measurement went, beside its records: the content of measurement.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trtspec.errors import TrtspecError
from trtspec.spec.names import FRONTEND_MODEL, TARGET_MODEL, Arm
from trtspec.wire import ModelCounts

__all__ = ["Outcome", "growth"]

Counts = Mapping[str, ModelCounts]


@dataclass
class Outcome:
    """What was seen besides the requests. `stopped` tells why it ended early; `errors` are texts of failed requests.

    `servers` has what each server's own counts grew by at each level, `targets` what answered at the addresses,
    `cold_start` how long an arm took from its launch to its first answer. `failure` is what broke
    of the load generator itself.
    """

    count: int = 0
    errors: set[str] = field(default_factory=set)
    error_codes: set[str] = field(default_factory=set)
    servers: list[dict[str, Any]] = field(default_factory=list)
    targets: dict[str, Any] = field(default_factory=dict)
    telemetry: list[dict[str, Any]] = field(default_factory=list)
    cold_start: dict[str, Any] = field(default_factory=dict)
    placement: dict[str, Any] = field(default_factory=dict)
    calibration: dict[str, Any] | None = None
    client: dict[str, Any] = field(default_factory=dict)
    divergences: list[dict[str, Any]] = field(default_factory=list)
    stopped: str | None = None
    failure: TrtspecError | None = None
    interrupted: bool = False

    def as_json(self) -> dict[str, Any]:
        """The content of measurement.json."""
        calibration = {} if self.calibration is None else {"calibration": self.calibration}
        return {
            "schema": 1,
            "interrupted": self.interrupted,
            "stopped": self.stopped,
            "client": self.client,
            "servers": self.servers,
            "targets": self.targets,
            "telemetry": self.telemetry,
            "cold_start": self.cold_start,
            "placement": self.placement,
            **calibration,
        }


def growth(arm: Arm, level: tuple[str, int], before: Counts | None, after: Counts | None) -> dict[str, Any]:
    """By how much a server's own counts grew at a level (its label and concurrency); None where it does not tell."""

    def grown(model: str) -> int | None:
        if before is None or after is None or model not in after:
            return None
        return after[model].success - (before[model].success if model in before else 0)

    return {
        "arm": arm,
        "load": level[0],
        "concurrency": level[1],
        "frontend_requests": grown(FRONTEND_MODEL),
        "target_requests": grown(TARGET_MODEL),
    }
