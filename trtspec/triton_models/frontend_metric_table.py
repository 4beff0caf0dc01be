"""The frontend's metrics: names, kinds, labels and meaning, as the code, docs/metrics.md and the dashboard use them.

Histograms are exported as counters with the names that Prometheus gives a histogram's series (`_bucket` with `le`,
`_sum`, `_count`): they are added up in the model and handed to Triton now and then, and its own histograms take no
sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["COMMON_LABELS", "METRICS", "Metric", "series"]

Kind = Literal["counter", "gauge", "histogram"]
COMMON_LABELS = ("model", "version")


@dataclass(frozen=True)
class Metric:
    """One metric; `labels` come on top of COMMON_LABELS, `buckets` are upper bounds in seconds."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_ROUND_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_FIRST_TOKEN_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

METRICS: tuple[Metric, ...] = (
    Metric(
        "trtspec_requests_total",
        "counter",
        "Client requests that have ended, by result: a finish reason (stop, length, stop_word) or an error code",
        ("result",),
    ),
    Metric("trtspec_running_requests", "gauge", "Client requests in work"),
    Metric("trtspec_prompt_tokens_total", "counter", "Prompt tokens of requests that were begun"),
    Metric("trtspec_output_tokens_total", "counter", "Output tokens sent or ready to be sent"),
    Metric("trtspec_rounds_total", "counter", "Rounds: a draft of at least one token and its verification"),
    Metric("trtspec_drafted_tokens_total", "counter", "Tokens drafted"),
    Metric("trtspec_accepted_tokens_total", "counter", "Drafted tokens that the target accepted"),
    Metric(
        "trtspec_lookups_total",
        "counter",
        "Lookups of a draft in the request's own text, by result: found (a round of those above), nothing",
        ("result",),
    ),
    Metric("trtspec_lookup_drafted_tokens_total", "counter", "Of the tokens drafted, those found in the text"),
    Metric("trtspec_lookup_accepted_tokens_total", "counter", "Of the tokens accepted, those found in the text"),
    Metric(
        "trtspec_draft_fallbacks_total",
        "counter",
        "Drafts that could not be used, by reason: failed, dead, timeout, busy, unavailable, invalid, empty, no_logits",
        ("reason",),
    ),
    Metric("trtspec_draft_length", "gauge", "Mean tokens drafted per round since the last export; 0 without a round"),
    Metric("trtspec_rounds_by_length_total", "counter", "Rounds by the number of tokens drafted in them", ("length",)),
    Metric(
        "trtspec_round_seconds",
        "histogram",
        "Time of a round, from the end of the last one; first rounds, which read the prompt, are left out",
        (),
        _ROUND_BUCKETS,
    ),
    Metric(
        "trtspec_round_part_seconds_total",
        "counter",
        "Time of these rounds by part: draft and target (the inner calls), overhead (all else)",
        ("part",),
    ),
    Metric(
        "trtspec_time_to_first_token_seconds",
        "histogram",
        "From a request's arrival in the frontend to its first text",
        (),
        _FIRST_TOKEN_BUCKETS,
    ),
)


def series(metric: Metric) -> dict[str, tuple[str, ...]]:
    """Exported series of `metric`: name → labels, the common ones left out."""
    if metric.kind != "histogram":
        return {metric.name: metric.labels}
    return {
        f"{metric.name}_bucket": (*metric.labels, "le"),
        f"{metric.name}_sum": metric.labels,
        f"{metric.name}_count": metric.labels,
    }
