"""A server's Prometheus page, read: our frontend's counters, Triton's, and TensorRT-LLM's KV cache."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trtspec.serving.ports import connect_host
from trtspec.spec.names import FRONTEND_MODEL

__all__ = ["Sample", "metrics_summary", "read_metrics", "running_requests"]

_LINE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{([^}]*)\})? ([-+.\w]+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
# a request that ended well ends with one of these; everything else is an error's code
_FINISHED = frozenset({"stop", "length", "stop_word"})


@dataclass(frozen=True)
class Sample:
    """One line of the page."""

    name: str
    labels: Mapping[str, str]
    value: float


def read_metrics(host: str, port: int, *, timeout: float = 5.0) -> tuple[Sample, ...] | None:
    """Every sample; None when nothing answers there."""
    connection = http.client.HTTPConnection(connect_host(host), port, timeout=timeout)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", errors="replace")
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return tuple(_samples(text)) if answer.status == http.client.OK else None


def _samples(text: str) -> Iterable[Sample]:
    for line in text.splitlines():
        if match := _LINE.match(line):
            try:
                yield Sample(match[1], dict(_LABEL.findall(match[2] or "")), float(match[3]))
            except ValueError:
                continue


def running_requests(samples: Iterable[Sample]) -> int | None:
    """Client requests in work, as our frontend says; None when it does not."""
    found = [sample.value for sample in samples if sample.name == "trtspec_running_requests"]
    return round(sum(found)) if found else None


def metrics_summary(samples: Iterable[Sample]) -> dict[str, Any]:
    """What `trtspec status` shows; None for what the server does not export, `lookups` only where one was made."""
    kept = tuple(samples)
    drafted, accepted = _sum(kept, "trtspec_drafted_tokens_total"), _sum(kept, "trtspec_accepted_tokens_total")
    return {
        "requests": _requests(kept),
        "failures": _failures(kept),
        "running": running_requests(kept),
        "rounds": _whole(_sum(kept, "trtspec_rounds_total")),
        "drafted_tokens": _whole(drafted),
        "accepted_tokens": _whole(accepted),
        "acceptance_rate": accepted / drafted if drafted and accepted is not None else None,
        "output_tokens": _whole(_sum(kept, "trtspec_output_tokens_total")),
        "kv_cache": _kv_cache(kept),
        **_lookups(kept),
    }


def _lookups(samples: tuple[Sample, ...]) -> dict[str, Any]:
    """Of the rounds and tokens, those whose draft was found in the text."""
    if _sum(samples, "trtspec_lookups_total") is None:
        return {}
    drafted = _sum(samples, "trtspec_lookup_drafted_tokens_total") or 0
    accepted = _sum(samples, "trtspec_lookup_accepted_tokens_total") or 0
    counts = {
        "rounds": round(_sum(samples, "trtspec_lookups_total", result="found") or 0),
        "drafted_tokens": round(drafted),
        "accepted_tokens": round(accepted),
        "acceptance_rate": accepted / drafted if drafted else None,
    }
    return {"lookups": counts}


def _requests(samples: tuple[Sample, ...]) -> int | None:
    """Client requests that have ended."""
    own = _sum(samples, "trtspec_requests_total")
    if own is not None:
        return _whole(own)
    success = _sum(samples, "nv_inference_request_success", model=FRONTEND_MODEL)
    failed = _sum(samples, "nv_inference_request_failure", model=FRONTEND_MODEL)
    return None if success is None else round(success + (failed or 0))


def _failures(samples: tuple[Sample, ...]) -> dict[str, int] | None:
    """Reason → requests that ended so."""
    if own := [sample for sample in samples if sample.name == "trtspec_requests_total"]:
        return _counts((sample.labels.get("result", "?"), sample.value) for sample in own if not _well(sample))
    named = [
        (sample.labels.get("reason", "?"), sample.value)
        for sample in samples
        if sample.name == "nv_inference_request_failure" and sample.labels.get("model") == FRONTEND_MODEL
    ]
    return _counts(named) if named else None


def _well(sample: Sample) -> bool:
    return sample.labels.get("result") in _FINISHED


def _counts(pairs: Iterable[tuple[str, float]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name, value in pairs:
        if value:
            counts[name] = counts.get(name, 0) + round(value)
    return counts


def _kv_cache(samples: tuple[Sample, ...]) -> dict[str, dict[str, float]] | None:
    """Model → used, free and max blocks, and the share in use (nv_trt_llm_kv_cache_block_metrics)."""
    caches: dict[str, dict[str, float]] = {}
    for sample in samples:
        if sample.name == "nv_trt_llm_kv_cache_block_metrics":
            kind = sample.labels.get("kv_cache_block_type", "?")
            caches.setdefault(sample.labels.get("model", "?"), {})[kind] = sample.value
    return caches or None


def _sum(samples: tuple[Sample, ...], name: str, **labels: str) -> float | None:
    found = [
        sample.value
        for sample in samples
        if sample.name == name and all(sample.labels.get(key) == value for key, value in labels.items())
    ]
    return sum(found) if found else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
