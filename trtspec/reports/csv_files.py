"""The report's numbers as CSV files: full precision, base units, an empty field where something was not measured."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from trtspec.reports.columns import request_columns
from trtspec.reports.data import ReportData
from trtspec.reports.drafters import told_by_drafter

__all__ = ["csv_files", "request_csv"]

Row = Sequence[Any]
_STATISTICS = ("mean", "p50", "p90", "p95", "p99", "p10", "p5", "p1", "total", "count", "unit", "reason")
_POOLED = ("num_spec_steps", "num_draft_tokens", "num_accepted_tokens", "acceptance_rate", "mean_acceptance_length")
_SHARES = ("share_of_rounds", "share_of_output")
_BATCH = 65_536


def csv_files(data: ReportData) -> dict[str, str]:
    """File name → content: metrics by arm and load, acceptance, speed-up."""
    return {
        "metrics.csv": _text(("load", "arm", "metric", *_STATISTICS), _metric_rows(data)),
        "acceptance.csv": _acceptance(data),
        "speedup.csv": _text(("by", "key", "metric", "estimate", "low", "high", "confidence"), _speedup_rows(data)),
    }


def request_csv(data: ReportData) -> Iterator[str]:
    """The text of requests.csv in pieces, one row a request in the order of their start."""
    yield _text(list(request_columns(data.table, slice(0, 0))), ())
    for start in range(0, len(data.table), _BATCH):
        columns = request_columns(data.table, slice(start, start + _BATCH))
        yield _text(None, zip(*(map(_safe, column) for column in columns.values()), strict=True))


def _text(columns: Iterable[str] | None, rows: Iterable[Row]) -> str:
    """None is an empty field (the csv module's own rule)."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    if columns is not None:
        writer.writerow(columns)
    writer.writerows(rows)
    return stream.getvalue()


def _safe(value: Any) -> Any:
    """Text that a spreadsheet would run as a formula gets an apostrophe in front, as OWASP advises."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _metric_rows(data: ReportData) -> Iterable[Row]:
    parts = {"all": data.whole, **{level.label: level.part for level in data.levels}}
    for load, part in parts.items():
        for arm in data.arms:
            counts = part.counts(arm)
            finished = (counts.get("ok") or 0) + (counts.get("failed") or 0)
            rate = {"mean": part.arms[arm].get("error_rate"), "count": finished, "unit": "share"}
            yield (load, arm, "error_rate", *(rate.get(key) for key in _STATISTICS))
            for name in part.metric_names():
                row = part.metric(arm, name)
                yield (load, arm, name, *(row.get(key) for key in _STATISTICS))


def _acceptance(data: ReportData) -> str:
    """The share of the output, which drafters have, is the last column where drafts are looked up."""
    if not told_by_drafter(data.acceptance):
        return _text(("by", "key", *_POOLED, *_SHARES[:1]), _acceptance_rows(data))
    rows = [*((*row, None) for row in _acceptance_rows(data)), *_drafter_rows(data)]
    return _text(("by", "key", *_POOLED, *_SHARES), rows)


def _drafter_rows(data: ReportData) -> Iterable[Row]:
    parts = {"drafter": data.acceptance}
    parts |= {f"drafter in {name}": part for name, part in sorted((data.acceptance.get("by_category") or {}).items())}
    for by, part in parts.items():
        for name, row in told_by_drafter(part).items():
            yield (by, name, *(row[key] for key in _POOLED), None, row["output_share"])


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
    parts += [("load", level.label, level.part) for level in data.levels]
    parts += [("category", name, part) for name, part in data.categories().items()]
    for by, key, part in parts:
        for metric, row in part.speedups.items():
            yield (by, _safe(key), metric, *(row.get(name) for name in ("estimate", "low", "high", "confidence")))
