"""A run in the names of AIPerf's exports, so that scripts written for AIPerf read ours.

Files and fields: docs/tutorials/working-with-profile-exports.md (per-request `profile_export.jsonl`),
docs/reference/json-export-schema.md (`profile_export_aiperf.json`, schema 1.5), docs/metrics-reference.md (formulas)
and docs/tutorials/spec-decode-metrics.md (acceptance) of github.com/ai-dynamo/aiperf. A figure with AIPerf's name has
AIPerf's formula: `inter_token_latency` divides by tokens - 1 and times count from the sending, so both may differ from
the figures of the report. An AIPerf run is one server under one load: every arm and load has a folder of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

from trtspec.reports.data import ReportData
from trtspec.reports.levels import Level
from trtspec.spec.names import ARMS, Arm

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trtspec.loadtest.table import Table

__all__ = ["ProfiledRun", "profiled_runs", "record_lines"]

_MS = 1e-6
_CANCELLED = 499
_ENGINE = "trtspec"


@dataclass(frozen=True)
class ProfiledRun:
    """One arm under one load; `rows` are its requests in order of their sending."""

    data: ReportData
    arm: Arm
    level: Level
    rows: NDArray[Any]

    @property
    def table(self) -> Table:
        """All requests of the run."""
        return self.data.table

    @property
    def folder(self) -> str:
        """`speculative-concurrency_4`."""
        return f"{self.arm}-{re.sub(r'[^A-Za-z0-9.]+', '_', self.level.label)}"

    @cached_property
    def profiled(self) -> NDArray[Any]:
        """The requests inside the window with a whole answer."""
        table = self.table
        rows: NDArray[Any] = self.rows[table.ok[self.rows] & (table.excluded[self.rows] < 0)]
        return rows

    @cached_property
    def epoch_ns(self) -> int:
        """What turns the run's clock into nanoseconds since 1970: the first request is put at the run's creation."""
        created = (self.data.provenance or {}).get("created")
        try:
            moment = datetime.fromisoformat(str(created))
        except ValueError:
            moment = datetime(1970, 1, 1, tzinfo=timezone.utc)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        return round(moment.timestamp() * 1e9) - int(self.table.start_ns.min())


def profiled_runs(data: ReportData) -> Iterator[ProfiledRun]:
    """Every arm under every load that sent requests."""
    import numpy as np

    for level in data.levels:
        for arm in data.arms:
            mask = (data.table.arm == ARMS.index(arm)) & (data.table.load == data.table.code(level.label))
            rows = np.flatnonzero(mask)
            if len(rows):
                yield ProfiledRun(data, arm, level, rows[np.argsort(data.table.start_ns[rows], kind="stable")])


def record_lines(run: ProfiledRun) -> Iterator[str]:
    """The lines of profile_export.jsonl."""
    for number, row in enumerate(run.rows.tolist()):
        yield json.dumps(_record(run, row, number), ensure_ascii=False, separators=(",", ":")) + "\n"


def _record(run: ProfiledRun, row: int, number: int) -> dict[str, Any]:
    table = run.table
    ok = bool(table.ok[row])
    record = {
        "metadata": _metadata(run, row, number),
        "metrics": _metrics(table, row) if ok else {},
        "error": None if ok else _error(table, row),
    }
    acceptance = _acceptance(table, row) if ok else None
    return record if acceptance is None else {**record, "spec_decode_acceptance": acceptance}


def _metadata(run: ProfiledRun, row: int, number: int) -> dict[str, Any]:
    table, epoch = run.table, run.epoch_ns
    name = f"{run.data.name}/{run.folder}/{number}"
    session = table.name(int(table.session[row])) or name
    first, cancelled = int(table.first_ns[row]), bool(table.cancelled[row])
    return {
        "session_num": number,
        "x_request_id": str(uuid5(NAMESPACE_URL, name)),
        "x_correlation_id": str(uuid5(NAMESPACE_URL, session)),
        "conversation_id": table.name(int(table.prompt[row])),
        "turn_index": max(0, int(table.turn[row])),
        "request_start_ns": int(table.start_ns[row]) + epoch,
        "request_ack_ns": first + epoch if table.arrivals[row] else None,
        "request_end_ns": int(table.end_ns[row]) + epoch,
        "worker_id": f"worker_{max(0, int(table.worker[row]))}",
        "record_processor_id": "trtspec",
        "benchmark_phase": "profiling" if table.excluded[row] < 0 else "warmup",
        "was_cancelled": cancelled,
        "cancellation_time_ns": int(table.end_ns[row]) + epoch if cancelled else None,
    }


def _metrics(table: Table, row: int) -> dict[str, Any]:
    start, first, last = (int(column[row]) for column in (table.start_ns, table.first_ns, table.last_ns))
    tokens, given = int(table.answer_tokens[row]), int(table.input_tokens[row])
    arrivals = _arrivals(table, row)
    gaps = [(after - before) * _MS for before, after in pairwise(arrivals)]
    found: dict[str, tuple[Any, str]] = {
        "time_to_first_token": ((first - start) * _MS, "ms"),
        "request_latency": ((last - start) * _MS, "ms"),
    }
    if gaps:
        found["time_to_second_token"] = (gaps[0], "ms")
        found["inter_chunk_latency"] = (gaps, "ms")
    if given >= 0:
        found["input_sequence_length"] = (given, "tokens")
    if tokens >= 0:
        found["output_token_count"] = found["output_sequence_length"] = (tokens, "tokens")
    if tokens > 1 and last > first:
        pace = (last - first) * _MS / (tokens - 1)
        found["inter_token_latency"] = (pace, "ms")
        found["output_token_throughput_per_user"] = (1000 / pace, "tokens/sec/user")
    return {name: {"value": value, "unit": unit} for name, (value, unit) in found.items()}


def _arrivals(table: Table, row: int) -> list[int]:
    """When visible texts arrived, in nanoseconds since the sending."""
    of = slice(int(table.chunk_offsets[row]), int(table.chunk_offsets[row + 1]))
    times: list[int] = table.chunk_ns[of][table.chunk_visible[of]].tolist()
    return times


def _error(table: Table, row: int) -> dict[str, Any]:
    if table.cancelled[row]:
        return {"code": _CANCELLED, "type": "RequestCancellationError", "message": "the request was cancelled"}
    kind = table.name(int(table.error_code[row])) or "error"
    return {"code": None, "type": kind, "message": table.name(int(table.error[row])) or "an answer without text"}


def _acceptance(table: Table, row: int) -> Mapping[str, Any] | None:
    steps, drafted, accepted = (int(column[row]) for column in (table.steps, table.drafted, table.accepted))
    if steps <= 0 or drafted < 0 or accepted < 0:
        return None
    histogram = table.histogram_of(row) or ()
    return {
        "engine": _ENGINE,
        "mean_acceptance_length": 1 + accepted / steps,
        "draft_acceptance_rate": accepted / drafted if drafted else None,
        "acceptance_histogram": {str(index): count for index, count in enumerate(histogram)},
        "num_accepted_draft_tokens": accepted,
        "num_draft_tokens": drafted,
        "num_spec_steps": steps,
        "num_spec_tokens": int(table.draft_length[row]) if table.draft_length[row] > 0 else max(0, len(histogram) - 1),
    }
