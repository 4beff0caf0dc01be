"""Reading summary.json: every number with its unit, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trtspec.reports.formats import Cell, DisplayUnit, number_text, ratio_text
from trtspec.reports.paths import join_path
from trtspec.units import bounds_text

__all__ = ["Interval", "Part", "interval_of"]

NO_INTERVAL = "too few pairs for an interval"
NOT_MEASURED = "not measured in this run"
# charts cut an interval that reaches further than this many times its estimate
_SHOWN = 5.0


@dataclass(frozen=True)
class Interval:
    """A speed-up with its interval; `low` and `high` are None where the sample does not carry one."""

    estimate: float
    low: float | None
    high: float | None
    confidence: float
    reason: str = ""
    count: int | None = None

    @property
    def text(self) -> str:
        """E.g. `1.32× (95 % interval 1.21× to 1.44×)`."""
        return f"{ratio_text(self.estimate)} ({self.range_text})"

    @property
    def ends(self) -> tuple[float, float]:
        """Low and high; the estimate where there is no interval."""
        if self.low is None or self.high is None:
            return self.estimate, self.estimate
        return self.low, self.high

    @property
    def shown_ends(self) -> tuple[float, float]:
        """`ends` as charts draw them: one that says nothing would squeeze all others into a line."""
        low, high = self.ends
        return max(low, self.estimate / _SHOWN), min(high, self.estimate * _SHOWN)

    @property
    def range_text(self) -> str:
        """E.g. `95 % interval 1.21× to 1.44×`, or why there is none."""
        if self.low is None or self.high is None:
            return self.reason or NO_INTERVAL
        bounds = bounds_text(self.low, self.high, "× to ")
        return f"{self.confidence * 100:.0f} % interval {bounds}×"


def interval_of(data: Any) -> Interval | None:
    """The interval in `{"estimate", "low", "high", "confidence", "count", "reason"}`, None without an estimate."""
    if not isinstance(data, Mapping) or data.get("estimate") is None:
        return None
    confidence = data.get("confidence") or 0.95
    reason = str(data.get("reason") or "")
    return Interval(data["estimate"], data.get("low"), data.get("high"), confidence, reason, data.get("count"))


@dataclass(frozen=True)
class Part:
    """A part of summary.json: the whole run, one load level, or one category (which has no arms).

    `path` leads to it, from an arm and from the comparison alike; `compared` is the comparison's section of it.
    """

    arms: Mapping[str, Any]
    speedups: Mapping[str, Any]
    path: tuple[str, ...] = ()
    compared: Mapping[str, Any] = field(default_factory=dict)

    def metric(self, arm: str, name: str) -> Mapping[str, Any]:
        """The metric's statistics of an arm, empty when the arm has none."""
        found = self.arms.get(arm, {}).get(name)
        return found if isinstance(found, Mapping) and "unit" in found else {}

    def metric_names(self) -> list[str]:
        """Metrics that any arm has, in the summary's order."""
        names = [name for arm, rows in self.arms.items() for name in rows if self.metric(arm, name)]
        return list(dict.fromkeys(names))

    def cell(self, arm: str, name: str, statistic: str, unit: DisplayUnit) -> Cell:
        """One statistic in the display unit, or a dash with its reason."""
        data = self.metric(arm, name)
        value = data.get(statistic)
        if value is None:
            return Cell("–", reason=str(data.get("reason") or NOT_MEASURED))
        return Cell(number_text(value * unit.factor), self.key(arm, name, statistic), repr(value))

    def key(self, arm: str, *names: str) -> str:
        """The path of an arm's number in the summary."""
        return join_path("arms", arm, *self.path, *names)

    def throughput(self, arm: str) -> float | None:
        """Output tokens per second of all concurrent requests together."""
        value = self.metric(arm, "output_tokens_per_second").get("total")
        return None if value is None else float(value)

    def counts(self, arm: str) -> Mapping[str, int]:
        """`ok`, `failed` and `excluded` requests of an arm."""
        found = self.arms.get(arm, {}).get("requests")
        return found if isinstance(found, Mapping) else {}

    def estimate(self, name: str) -> float | None:
        """The speed-up of a metric, None where there is none."""
        value = (self.speedups.get(name) or {}).get("estimate")
        return None if value is None else float(value)

    def speedup(self, name: str) -> Interval | None:
        """The speed-up of a metric with its interval, None where there is none."""
        return interval_of(self.speedups.get(name))

    def speedup_cell(self, name: str, key: str) -> Cell:
        """`estimate`, `low` or `high` of a speed-up, or a dash with its reason."""
        data = self.speedups.get(name) or {}
        value = data.get(key)
        if value is None:
            return Cell("–", reason=str(data.get("reason") or NO_INTERVAL))
        return Cell(ratio_text(value), join_path("comparison", *self.path, "speedup", name, key), repr(value))
