"""A run folder in which everything is there: open loop, service levels, telemetry, stamps, cold start, self-report."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

from tests.reports.sample import Shape, make_records, sample_provenance, write_run

__all__ = ["SERVICE_LEVELS", "rich_run"]

SERVICE_LEVELS = {"ttft": 0.08, "tpot": 0.03}
_RATES = (2.0, 5.0, 10.0)


def rich_run(folder: Path, shape: Shape | None = None) -> Path:
    """Write the run; returns its folder."""
    shape = shape or Shape(prompts=48, levels=(1, 2, 4, 8), failing=0)
    records = make_records(shape)
    for line in records:
        line["block"] = int(line["prompt_id"].rpartition("-")[2]) // 3
    records += _open_loop(shape, records[-1]["end_ns"] + 10**9)
    for number, line in enumerate(records):
        _stamp(line, number)
    provenance = {**sample_provenance(), "options": {"seed": 11, "temperature": 0.0, "slo": SERVICE_LEVELS}}
    provenance["spec"]["hardware"] = {"gpu": "H100-80GB-SXM", "count": 2, "price_per_hour": 2.5}
    provenance["spec"]["target"] = {"checkpoint": "models/Llama-3.1-8B", "tp": 1}
    provenance["spec"]["draft"] = {"checkpoint": "models/Llama-3.2-1B-draft", "tp": 1}
    write_run(folder, records, provenance)
    (folder / "measurement.json").write_text(json.dumps(_measurement(records)))
    (folder / "telemetry.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in _telemetry(records)))
    return folder


def _open_loop(shape: Shape, start: int) -> list[dict[str, Any]]:
    """The closed loops' answers again, sent on a schedule, slower under a higher rate."""
    lines = []
    for level, rate in zip(shape.levels[1:], _RATES, strict=True):
        origin = start
        for line in make_records(shape.with_(levels=(level,), seed=level)):
            shift = start - line["start_ns"] + 2_000_000
            moved = [{**chunk, "t_ns": chunk["t_ns"] + shift} for chunk in line["chunks"]]
            label = {"load": f"poisson {rate:g}/s", "scheduled_ns": start, "block": int((start - origin) // 3e9)}
            times = {"start_ns": start + 2_000_000, "end_ns": line["end_ns"] + shift, "chunks": moved}
            lines.append({**line, **label, **times, "concurrency": 1})
            start += int(1e9 / rate)
        start += 10**10
    return lines


def _stamp(line: dict[str, Any], number: int) -> None:
    first = line["chunks"][0]["t_ns"] - line["start_ns"]
    queue = int(first * (0.05 + 0.05 * math.sin(number)))
    line["perf"] = {
        "arrival_ns": 10**12, "first_scheduled_ns": 10**12 + queue, "first_token_ns": 10**12 + int(first * 0.93),
        "last_token_ns": 10**12 + first * 3,
    }  # fmt: skip


def _measurement(records: list[dict[str, Any]]) -> dict[str, Any]:
    lag = {"p50": 0.0002, "p99": 0.0016, "max": 0.004, "count": 900, "unit": "s"}
    starts = {"baseline": (8.2, 0.4), "speculative": (13.9, 0.5)}
    loads = dict.fromkeys((line["arm"], line.get("load") or f"concurrency {line['concurrency']}") for line in records)
    return {
        "schema": 1,
        "client": {"loop_lag": lag, "send_lag": lag, "cpu_share": 0.31, "cpus": 16, "workers": []},
        "cold_start": {
            arm: {"launch_to_ready": ready, "first_token": first / 3, "first_answer": first, "reason": None,
                  "launch_to_first_answer": ready + first, "unit": "s"}
            for arm, (ready, first) in starts.items()
        },
        "telemetry": [{"arm": arm, "load": load, "growth": [], "reset": False, "reason": None} for arm, load in loads],
    }  # fmt: skip


def _telemetry(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rng = random.Random(3)
    begin, end = records[0]["start_ns"], max(line["end_ns"] for line in records)
    rows: list[dict[str, Any]] = []
    joules = 0.0
    for t_ns in range(begin, end, 250_000_000):
        busy = sum(line["start_ns"] <= t_ns <= line["end_ns"] for line in records)
        for arm in ("baseline", "speculative"):
            mine = sum(line["arm"] == arm and line["start_ns"] <= t_ns <= line["end_ns"] for line in records)
            gauges = {
                "kv_cache_usage": {"tensorrt_llm": min(0.9, 0.08 * mine)},
                "waiting_requests": {"tensorrt_llm": float(max(0, mine - 4))},
                "running_requests": {"tensorrt_llm_bls": float(mine)},
            }
            rows.append({"t_ns": t_ns, "arm": arm, "gauges": gauges})
        power = 90.0 + 60.0 * min(busy, 6) + rng.gauss(0, 6)
        joules += power / 4
        gpu = {"gpu": 0, "t_ns": t_ns, "power": power, "energy": joules, "memory_used": 61 * 2**30}
        rows.append({"t_ns": t_ns, "gpus": [{**gpu, "utilisation": min(1.0, 0.15 * busy)}]})
    return rows
