"""The summary of one arm under one load in the form of AIPerf's `profile_export_aiperf.json` (see `aiperf`)."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from trtspec import __version__
from trtspec.reports.aiperf import ProfiledRun

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SCHEMA_VERSION", "profile_summary"]

SCHEMA_VERSION = "1.5"
_RANKS = (1, 5, 10, 25, 50, 75, 90, 95, 99)
_MS = 1e-6


def profile_summary(run: ProfiledRun) -> dict[str, Any]:
    """Every figure that AIPerf has and this run carries; what it does not carry is left out, as AIPerf does."""
    begin, end = _span(run)
    given = run.data.provenance or {}
    options = given.get("options")
    seed = options.get("seed") if isinstance(options, Mapping) else None
    argv = given.get("argv")
    return {
        "schema_version": SCHEMA_VERSION,
        "generator": f"trtspec {__version__}",
        "benchmark_id": f"{run.data.name}/{run.folder}",
        **{name: _stats(values, unit) for name, (values, unit) in _records(run).items() if len(values)},
        **dict(_derived(run, (end - begin) * 1e-9)),
        "error_summary": _errors(run),
        "start_time": _moment(begin + run.epoch_ns),
        "end_time": _moment(end + run.epoch_ns),
        "was_cancelled": bool(run.data.measurement.get("interrupted")),
        "run_info": {
            "random_seed": seed, "trial": 0, "run_label": run.folder, "variation_label": run.level.label,
            "variation_values": {"load": run.level.label, "arm": run.arm},
            "cli_command": shlex.join(map(str, argv)) if isinstance(argv, list) else None,
        },
    }  # fmt: skip


def _moment(epoch_ns: int) -> str:
    return datetime.fromtimestamp(epoch_ns / 1e9, tz=timezone.utc).isoformat()


def _span(run: ProfiledRun) -> tuple[int, int]:
    """From the first sending to the last answer of the profiled requests."""
    table, rows = run.table, run.profiled
    if not len(rows):
        return int(table.start_ns[run.rows[0]]), int(table.end_ns[run.rows].max())
    return int(table.start_ns[rows].min()), int(table.end_ns[rows].max())


def _records(run: ProfiledRun) -> dict[str, tuple[NDArray[Any], str]]:
    """Metrics with a distribution: values and unit."""
    table, rows = run.table, run.profiled
    decode = (table.last_ns[rows] - table.first_ns[rows]) * _MS
    tokens, given = table.answer_tokens[rows], table.input_tokens[rows]
    paced = (tokens > 1) & (decode > 0)
    pace = decode[paced] / (tokens[paced] - 1)
    return {
        "request_latency": ((table.last_ns[rows] - table.start_ns[rows]) * _MS, "ms"),
        "time_to_first_token": ((table.first_ns[rows] - table.start_ns[rows]) * _MS, "ms"),
        "inter_token_latency": (pace, "ms"),
        "inter_chunk_latency": (_gaps(run), "ms"),
        "output_token_throughput_per_user": (1000 / pace, "tokens/sec/user"),
        "output_sequence_length": (tokens[tokens >= 0], "tokens"),
        "output_token_count": (tokens[tokens >= 0], "tokens"),
        "input_sequence_length": (given[given >= 0], "tokens"),
        **_acceptance(run),
    }


def _gaps(run: ProfiledRun) -> NDArray[Any]:
    """Milliseconds between neighbouring visible texts of the profiled requests."""
    import numpy as np

    table = run.table
    request = np.repeat(np.arange(len(table)), np.diff(table.chunk_offsets))
    seen = table.chunk_visible & np.isin(request, run.profiled)
    times, request = table.chunk_ns[seen], request[seen]
    gaps: NDArray[Any] = (np.diff(times) * _MS)[np.diff(request) == 0]
    return gaps


def _acceptance(run: ProfiledRun) -> dict[str, tuple[NDArray[Any], str]]:
    table, rows = run.table, run.profiled
    rows = rows[(table.steps[rows] > 0) & (table.accepted[rows] >= 0) & (table.drafted[rows] >= 0)]
    steps, drafted, accepted = table.steps[rows], table.drafted[rows], table.accepted[rows]
    known = drafted > 0
    return {
        "spec_decode_acceptance_length": (1 + accepted / steps, "ratio"),
        "spec_decode_draft_acceptance_rate": (100 * accepted[known] / drafted[known], "%"),
        "spec_decode_accepted_per_verified": ((accepted + steps) / (drafted + steps), "ratio"),
        "spec_decode_steps": (steps, "count"),
        "spec_decode_accepted_draft_tokens": (accepted, "tokens"),
        "spec_decode_draft_tokens": (drafted, "tokens"),
    }


def _stats(values: NDArray[Any], unit: str) -> dict[str, Any]:
    import numpy as np

    ranks = np.percentile(values, _RANKS)
    whole = values.dtype.kind in "iu"
    return {
        "unit": unit, "avg": float(values.mean()),
        **{f"p{rank}": float(value) for rank, value in zip(_RANKS, ranks, strict=True)},
        "min": values.min().item(), "max": values.max().item(),
        "std": float(values.std(ddof=1)) if len(values) > 1 else 0.0,
        "count": len(values), "sum": int(values.sum()) if whole else float(values.sum()),
    }  # fmt: skip


def _derived(run: ProfiledRun, seconds: float) -> Iterator[tuple[str, Any]]:
    """Figures with one value for the whole run."""
    table, rows = run.table, run.profiled
    failed = int((table.failed[run.rows] & (table.excluded[run.rows] < 0)).sum())
    tokens = table.answer_tokens[rows]
    yield "request_count", {"unit": "requests", "avg": float(len(rows))}
    if failed:
        yield "error_request_count", {"unit": "requests", "avg": float(failed)}
    yield "benchmark_duration", {"unit": "sec", "avg": seconds}
    if seconds > 0 and len(rows):
        yield "request_throughput", {"unit": "requests/sec", "avg": len(rows) / seconds}
    if len(rows) and (tokens >= 0).all():
        total = int(tokens.sum())
        yield "total_output_tokens", {"unit": "tokens", "avg": float(total)}
        yield "total_osl", {"unit": "tokens", "avg": float(total)}
        if seconds > 0:
            yield "output_token_throughput", {"unit": "tokens/sec", "avg": total / seconds}
    yield from _pooled(run)


def _pooled(run: ProfiledRun) -> Iterator[tuple[str, Any]]:
    found = {name: values for name, (values, _) in _acceptance(run).items()}
    steps, drafted, accepted = (
        int(found[f"spec_decode_{name}"].sum()) for name in ("steps", "draft_tokens", "accepted_draft_tokens")
    )
    if not steps:
        return
    for name, total in (("spec_decode_steps", steps), ("accepted_draft_tokens", accepted), ("draft_tokens", drafted)):
        unit = "count" if name == "spec_decode_steps" else "tokens"
        yield f"total_{name}", {"unit": unit, "avg": float(total)}
    yield "spec_decode_token_weighted_acceptance_length", {"unit": "ratio", "avg": 1 + accepted / steps}
    if drafted:
        yield "spec_decode_overall_draft_acceptance_rate", {"unit": "%", "avg": 100 * accepted / drafted}
    pooled: Counter[int] = Counter()
    for row in run.profiled.tolist():
        pooled.update(dict(enumerate(run.table.histogram_of(row) or ())))
    yield "pooled_spec_decode_acceptance_histogram", {str(index): pooled[index] for index in sorted(pooled)}


def _errors(run: ProfiledRun) -> list[dict[str, Any]]:
    table, rows = run.table, run.rows
    failed = rows[table.failed[rows] & (table.excluded[rows] < 0)]
    counted = Counter(zip(table.error_code[failed].tolist(), table.error[failed].tolist(), strict=True))
    return [
        {"error_details": {"code": None, "type": table.name(code) or "error", "message": table.name(error) or ""},
         "count": count}
        for (code, error), count in counted.most_common()
    ]  # fmt: skip
