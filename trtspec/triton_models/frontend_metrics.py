"""Counts what the frontend does and hands the sums to Triton's metrics endpoint now and then.

An update of a Triton metric is a message to the server's process, so none is made while a request waits.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import triton_python_backend_utils as pb_utils

if TYPE_CHECKING or __package__:  # in a repository these files lie side by side, in no package
    from trtspec.speculation import Counters
    from trtspec.triton_models.frontend_leaves import Exchange
    from trtspec.triton_models.frontend_metric_table import METRICS, series
else:
    from frontend_leaves import Exchange
    from frontend_metric_table import METRICS, series
    from speculation import Counters

__all__ = ["Metrics", "RequestMeter"]

_EXPORT_SECONDS = 1.0
Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Sums of one frontend; `export` is called often and acts once a second."""

    def __init__(self, model: str, version: str, running: Callable[[], int]) -> None:
        self._common = {"model": model, "version": version}
        self._running = running
        self._lock = threading.Lock()
        self._pending: dict[tuple[str, Labels], float] = {}
        self._observed = _no_observations()
        self._metrics: dict[tuple[str, Labels], Any] = {}
        self._families = _families()
        self._last = time.monotonic()

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        with self._lock:
            self._add(name, amount, tuple(labels.items()))

    def observe(self, name: str, seconds: float) -> None:
        """Add an observation to a histogram."""
        with self._lock:
            self._observe(name, seconds)

    def round(self, drafted: int, seconds: float, parts: Mapping[str, float]) -> None:
        """Count one round; without `parts` it is not timed."""
        with self._lock:
            self._add("trtspec_rounds_by_length_total", 1, (("length", str(drafted)),))
            if parts:
                self._observe("trtspec_round_seconds", seconds)
            for part, value in parts.items():
                self._add("trtspec_round_part_seconds_total", value, (("part", part),))

    def export(self) -> None:
        """Hand the sums to Triton, unless that was done a moment ago."""
        if not self._families or time.monotonic() - self._last < _EXPORT_SECONDS:
            return
        self._last = time.monotonic()
        with self._lock:
            pending, self._pending = self._pending, {}
            observed, self._observed = self._observed, _no_observations()
        for name, found in observed.items():
            pending |= found.series(name)
        try:
            self._hand_over(pending)
        except Exception as error:  # noqa: BLE001 - the thread that exports also looks after the requests
            pb_utils.Logger.log_warn(f"metrics of the last second are lost: {error}")

    def _hand_over(self, pending: Mapping[tuple[str, Labels], float]) -> None:
        rounds = pending.get(("trtspec_rounds_total", ()), 0)
        for (name, labels), amount in pending.items():
            self._metric(name, labels).increment(amount)
        self._metric("trtspec_running_requests", ()).set(self._running())
        drafted = pending.get(("trtspec_drafted_tokens_total", ()), 0)
        self._metric("trtspec_draft_length", ()).set(drafted / rounds if rounds else 0)

    def _add(self, name: str, amount: float, labels: Labels) -> None:
        if amount > 0:
            key = (name, labels)
            self._pending[key] = self._pending.get(key, 0) + amount

    def _observe(self, name: str, seconds: float) -> None:
        found = self._observed[name]
        found.counts[bisect_left(found.bounds, seconds)] += 1
        found.total += seconds

    def _metric(self, name: str, labels: Labels) -> Any:
        key = (name, labels)
        if key not in self._metrics:
            self._metrics[key] = self._families[name].Metric(labels={**self._common, **dict(labels)})
        return self._metrics[key]


@dataclass
class _Observations:
    """What a histogram took in since the last export; the last count is of what is above all bounds."""

    bounds: tuple[float, ...]
    counts: list[int]
    total: float = 0.0

    def series(self, name: str) -> dict[tuple[str, Labels], float]:
        """Amounts by which its series grow; none without an observation."""
        if not any(self.counts):
            return {}
        names = [*(f"{bound:g}" for bound in self.bounds), "+Inf"]
        grown = zip(names, accumulate(self.counts), strict=True)
        buckets: dict[tuple[str, Labels], float] = {}
        for bound, count in grown:
            if count:
                buckets[f"{name}_bucket", (("le", bound),)] = float(count)
        return {**buckets, (f"{name}_sum", ()): self.total, (f"{name}_count", ()): float(sum(self.counts))}


def _no_observations() -> dict[str, _Observations]:
    histograms = (metric for metric in METRICS if metric.buckets)
    return {metric.name: _Observations(metric.buckets, [0] * (len(metric.buckets) + 1)) for metric in histograms}


def _families() -> dict[str, Any]:
    """A family for each series; none where the server has its metrics switched off."""
    kinds = {"counter": "COUNTER", "histogram": "COUNTER", "gauge": "GAUGE"}
    try:
        return {
            name: pb_utils.MetricFamily(
                name=name, description=metric.help, kind=getattr(pb_utils.MetricFamily, kinds[metric.kind])
            )
            for metric in METRICS
            for name in series(metric)
        }
    except Exception as error:  # noqa: BLE001 - a server without metrics serves requests all the same
        pb_utils.Logger.log_warn(f"no metrics of the frontend: {error}")
        return {}


@dataclass
class RequestMeter:
    """Counts one request; each call adds what is new since the last one."""

    metrics: Metrics
    exchange: Exchange
    arrival: float = field(default_factory=time.perf_counter)
    _counters: Counters = field(default_factory=Counters)
    _tokens: int = 0
    _text: bool = False
    _begun: bool = False
    _round_end: float = 0.0

    def __post_init__(self) -> None:
        self._round_end = self.arrival

    def progress(self, counters: Counters, tokens: int, *, text: bool) -> None:
        """After every chunk."""
        now, metrics, before = time.perf_counter(), self.metrics, self._counters
        if text and not self._text:
            self._text = True
            metrics.observe("trtspec_time_to_first_token_seconds", now - self.arrival)
        metrics.add("trtspec_output_tokens_total", tokens - self._tokens)
        metrics.add("trtspec_rounds_total", counters.rounds - before.rounds)
        metrics.add("trtspec_drafted_tokens_total", counters.drafted - before.drafted)
        metrics.add("trtspec_accepted_tokens_total", counters.accepted - before.accepted)
        found, found_before = counters.looked_up, before.looked_up
        metrics.add("trtspec_lookups_total", found.rounds - found_before.rounds, result="found")
        metrics.add("trtspec_lookups_total", counters.misses - before.misses, result="nothing")
        metrics.add("trtspec_lookup_drafted_tokens_total", found.drafted - found_before.drafted)
        metrics.add("trtspec_lookup_accepted_tokens_total", found.accepted - found_before.accepted)
        for reason in counters.reasons[len(before.reasons) :]:
            metrics.add("trtspec_draft_fallbacks_total", reason=reason)
        self._counters, self._tokens = counters, tokens

    def step(self, drafted: int) -> None:
        """After every step of the loop, the sending of its text included; a round when something was drafted."""
        now, exchange = time.perf_counter(), self.exchange
        seconds = now - self._round_end
        if drafted:
            parts = {"draft": exchange.draft_seconds, "target": exchange.target_seconds}
            parts["overhead"] = seconds - sum(parts.values())
            # the first step reads the prompt: it says nothing of what a round costs
            self.metrics.round(drafted, seconds, parts if self._begun else {})
        self._begun = True
        exchange.draft_seconds = exchange.target_seconds = 0.0
        self._round_end = now

    def end(self, result: str) -> None:
        """Once, with the finish reason or the error's code."""
        self.metrics.add("trtspec_requests_total", result=result)
