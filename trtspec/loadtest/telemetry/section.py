"""The `server` section of a summary: what the servers counted while the clients measured them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trtspec.loadtest.distribution import describe
from trtspec.loadtest.telemetry.energy import energy
from trtspec.loadtest.telemetry.families import COUNTERS, GAUGES, Family
from trtspec.loadtest.telemetry.samples import Samples
from trtspec.loadtest.telemetry.scrape import Growth, from_rows
from trtspec.spec.names import FRONTEND_MODEL, Arm
from trtspec.wire.messages import ServerStamps

__all__ = ["ArmLoad", "server_section"]

Span = tuple[int, int]
# where a request of ours is counted once, by kind of server
_REQUESTS = (
    Family("trtspec_requests_total"),
    Family("nv_inference_request_success"),
    Family("vllm:e2e_request_latency_seconds_count"),
    Family("sglang:num_requests_total"),
)
_NS = 1e-9


@dataclass(frozen=True)
class ArmLoad:
    """What the records say of one arm under one load.

    `spans` are the times in which measured requests ran (perf_counter_ns, in order and apart), `sent` all requests that
    were sent, measured or not, `first` the client's time to first token (ns) and the server's stamps of each request
    that has both.
    """

    arm: Arm
    load: str
    spans: Sequence[Span] = ()
    tokens: int | None = None
    sent: int = 0
    first: Sequence[tuple[int, ServerStamps]] = field(default_factory=tuple)


def server_section(
    loads: Iterable[ArmLoad], telemetry: Iterable[Mapping[str, Any]], samples: Samples
) -> dict[str, dict[str, dict[str, Any]]]:
    """Arm → load → figures.

    `telemetry` is that of measurement.json (what counters grew by), `samples` the gauges in between. What a server does
    not export is None with a `reason`.
    """
    grown = {(str(entry.get("arm")), str(entry.get("load"))): entry for entry in telemetry}
    section: dict[str, dict[str, dict[str, Any]]] = {}
    for part in loads:
        section.setdefault(part.arm, {})[part.load] = _figures(part, grown.get((part.arm, part.load), {}), samples)
    return section


def _figures(part: ArmLoad, entry: Mapping[str, Any], samples: Samples) -> dict[str, Any]:
    rows = from_rows(entry.get("growth"))
    grown = Growth(rows, bool(entry.get("reset")))
    reason = _why_nothing(entry, grown)
    return {
        "requests": _requests(part, grown),
        "times": {name: _mean(name, grown, reason) for name in COUNTERS},
        "gauges": {name: _gauge(name, part, samples) for name in GAUGES},
        "energy": energy(part.spans, part.tokens, grown, samples),
        "first_token": _split(part.first),
        "families": sorted({name for name, _ in rows}),
        "reset": grown.reset,
        "reason": reason,
    }


def _why_nothing(entry: Mapping[str, Any], grown: Growth) -> str | None:
    if not entry:
        return "the server's metrics were not read"
    if grown.reset:
        return "counters fell during the test: the server was restarted"
    return str(entry["reason"]) if entry.get("reason") else None


def _requests(part: ArmLoad, grown: Growth) -> dict[str, Any]:
    """What the server counted beside what we sent; `foreign` is what others sent, None where it is not counted."""
    counted = next((n for n in (grown.of(family, FRONTEND_MODEL) for family in _REQUESTS) if n is not None), None)
    foreign = None if counted is None else max(0, round(counted) - part.sent)
    return {"server": None if counted is None else round(counted), "ours": part.sent, "foreign": foreign}


def _mean(name: str, grown: Growth, reason: str | None) -> dict[str, Any]:
    """**Formula:** growth of the total / growth of the count, over all blocks of the load."""
    for total, count in COUNTERS[name]:
        seconds, times = grown.of(total, FRONTEND_MODEL), grown.of(count, FRONTEND_MODEL)
        if seconds is not None and times:
            return {"mean": seconds / times, "count": round(times), "unit": "s", "source": total.name, "reason": None}
    return {
        "mean": None,
        "count": 0,
        "unit": "s",
        "source": None,
        "reason": reason or "the server exports no such time",
    }


def _gauge(name: str, part: ArmLoad, samples: Samples) -> dict[str, Any]:
    """Model → mean and largest of the samples taken while the arm was under load."""
    values: dict[str, list[float]] = {}
    for t_ns, gauges in samples.gauges.get(part.arm, ()):
        if _inside(t_ns, part.spans):
            for model, number in gauges.get(name, {}).items():
                values.setdefault(model, []).append(number)
    models = {m: {"mean": sum(of) / len(of), "max": max(of), "count": len(of)} for m, of in sorted(values.items())}
    return {"models": models, "reason": None if models else "no sample was taken, or the server exports no such gauge"}


def _inside(t_ns: int, spans: Sequence[Span]) -> bool:
    """Whether one of `spans`, which are in order and apart, holds `t_ns`."""
    index = bisect_right(spans, t_ns, key=lambda span: span[0]) - 1
    return index >= 0 and t_ns <= spans[index][1]


def _split(first: Sequence[tuple[int, ServerStamps]]) -> dict[str, Any]:
    """Where the time to first token goes, from the server's own stamps.

    **Formula:** queue = first scheduled - arrival; prefill = first token - first scheduled; client_and_network = the
    client's time to first token - (first token - arrival). The server's clock is compared with itself only.
    """
    rows = [parts for ttft, stamps in first if (parts := _parts(ttft, stamps)) is not None]
    absent = "the server sends no stamps of its own (return_perf_metrics)"
    names = ("queue", "prefill", "client_and_network")
    return {name: describe([row[i] for row in rows], "s", absent=absent) for i, name in enumerate(names)}


def _parts(ttft_ns: int, stamps: ServerStamps) -> tuple[float, float, float] | None:
    arrival, scheduled, token = stamps.arrival_ns, stamps.first_scheduled_ns, stamps.first_token_ns
    if arrival is None or scheduled is None or token is None or not arrival <= scheduled <= token:
        return None
    return (scheduled - arrival) * _NS, (token - scheduled) * _NS, (ttft_ns - (token - arrival)) * _NS
