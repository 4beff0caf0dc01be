"""The report's numbers as CSV files: full precision, base units, an empty field where something was not measured."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from trtspec.reports.data import ReportData, Request

__all__ = ["csv_files"]

Row = Sequence[Any]
_TIMES = ("time_to_first_token", "time_per_output_token", "request_latency", "max_stall")
# column → attribute of a request
_BEFORE = {
    "arm": "arm",
    "prompt_id": "prompt_id",
    "category": "category",
    "concurrency": "concurrency",
    "start_s": "start",
    "status": "status",
    "error": "error",
    "excluded": "excluded",
}
_AFTER = {
    "chunks": "chunks",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "rounds": "rounds",
    "drafted": "drafted",
    "accepted": "accepted",
    "acceptance_rate": "acceptance",
}
_REQUEST_COLUMNS = (*_BEFORE, *(f"{name}_s" for name in _TIMES), *_AFTER)
_STATISTICS = ("mean", "p50", "p90", "p95", "p99", "p10", "p5", "p1", "total", "count", "unit", "reason")
_POOLED = ("num_spec_steps", "num_draft_tokens", "num_accepted_tokens", "acceptance_rate", "mean_acceptance_length")


def csv_files(data: ReportData) -> dict[str, str]:
    """File name → content: requests, metrics by arm and concurrency, acceptance, speed-up."""
    return {
        "requests.csv": _text(_REQUEST_COLUMNS, map(_request_row, data.requests)),
        "metrics.csv": _text(("concurrency", "arm", "metric", *_STATISTICS), _metric_rows(data)),
        "acceptance.csv": _text(("by", "key", *_POOLED, "share_of_rounds"), _acceptance_rows(data)),
        "speedup.csv": _text(("by", "key", "metric", "estimate", "low", "high", "confidence"), _speedup_rows(data)),
    }


def _text(columns: Iterable[str], rows: Iterable[Row]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([["" if value is None else value for value in row] for row in rows])
    return stream.getvalue()


def _request_row(request: Request) -> Row:
    before, after = ([_safe(getattr(request, name)) for name in names.values()] for names in (_BEFORE, _AFTER))
    return [*before, *(request.times[name] for name in _TIMES), *after]


def _safe(value: Any) -> Any:
    """Text that a spreadsheet would run as a formula gets an apostrophe in front, as OWASP advises."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _metric_rows(data: ReportData) -> Iterable[Row]:
    parts = {"all": data.whole, **{str(level): part for level, part in data.by_level.items()}}
    for level, part in parts.items():
        for arm in data.arms:
            counts = part.counts(arm)
            finished = (counts.get("ok") or 0) + (counts.get("failed") or 0)
            rate = {"mean": part.arms[arm].get("error_rate"), "count": finished, "unit": "share"}
            yield (level, arm, "error_rate", *(rate.get(key) for key in _STATISTICS))
            for name in part.metric_names():
                row = part.metric(arm, name)
                yield (level, arm, name, *(row.get(key) for key in _STATISTICS))


def _acceptance_rows(data: ReportData) -> Iterable[Row]:
    whole = data.acceptance
    yield ("all", "", *(whole.get(key) for key in _POOLED), None)
    for name, part in sorted((whole.get("by_category") or {}).items()):
        yield ("category", _safe(name), *(part.get(key) for key in _POOLED), None)
    nothing = [None] * len(_POOLED)
    for position, share in enumerate(whole.get("per_position") or (), start=1):
        yield ("position", position, *nothing, share)
    histogram = whole.get("acceptance_histogram") or ()
    for accepted, count in enumerate(histogram):
        yield ("accepted in a round", accepted, count, *nothing[1:], count / sum(histogram) if sum(histogram) else None)


def _speedup_rows(data: ReportData) -> Iterable[Row]:
    parts = [("all", "", data.whole)]
    parts += [("concurrency", str(level), part) for level, part in data.by_level.items()]
    parts += [("category", name, part) for name, part in data.by_category.items()]
    for by, key, part in parts:
        for metric, row in part.speedups.items():
            yield (by, _safe(key), metric, *(row.get(name) for name in ("estimate", "low", "high", "confidence")))
