"""Energy of an arm under load, and what a token costs in it."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from trtspec.loadtest.telemetry.families import Family
from trtspec.loadtest.telemetry.samples import Samples
from trtspec.loadtest.telemetry.scrape import Growth, is_number

__all__ = ["energy", "spent"]

# joules since the server started (DCGM), of all GPUs that it sees
_TRITON = Family("nv_energy_consumption")
Span = tuple[int, int]


def energy(spans: Sequence[Span], tokens: int | None, grown: Growth, samples: Samples) -> dict[str, Any]:
    """`{"joules", "mean_power", "tokens_per_joule", "joules_per_token", "gpus", "source", "reason"}`.

    From this machine's GPUs (NVML) while the arm was under load, pauses left out; else from the server's own counter
    over its blocks, which also contain what ran before and after the measured requests. Of all GPUs that are seen:
    where both arms share a machine, the GPUs of the other one count with their idle power.
    """
    by_gpu = {gpu: joules for gpu, rows in samples.gpus.items() if (joules := spent(rows, spans)) is not None}
    seconds = sum(end - begin for begin, end in spans) * 1e-9
    counted = grown.of(_TRITON)
    if by_gpu:
        return _figures(sum(by_gpu.values()), seconds, tokens, {"gpus": sorted(by_gpu), "source": "NVML"})
    if counted:
        return _figures(counted, None, tokens, {"gpus": None, "source": _TRITON.name})
    return _figures(None, None, None, {"gpus": None, "source": None})


def _figures(
    joules: float | None, seconds: float | None, tokens: int | None, origin: Mapping[str, Any]
) -> dict[str, Any]:
    """**Formula:** tokens per joule = output tokens in the active time / energy in that time."""
    known = joules is not None and joules > 0
    return {
        "joules": joules,
        "mean_power": joules / seconds if known and joules and seconds else None,
        "tokens_per_joule": tokens / joules if known and joules and tokens else None,
        "joules_per_token": joules / tokens if known and joules and tokens else None,
        **origin,
        "reason": None if known else "neither NVML nor the server's metrics tell the energy of a GPU",
    }


def spent(rows: Sequence[Mapping[str, Any]], spans: Sequence[Span]) -> float | None:
    """Joules of one GPU within `spans`; None with fewer than two samples that tell.

    From its energy counter, linear between two samples; without one from its power, by the trapezoidal rule.
    """
    counter = [(int(row["t_ns"]), float(row["energy"])) for row in rows if is_number(row.get("energy"))]
    power = [(int(row["t_ns"]), float(row["power"])) for row in rows if is_number(row.get("power"))]
    curve = counter if len(counter) >= 2 else _integral(power)
    if len(curve) < 2 or not spans:
        return None
    return sum(_at(curve, end) - _at(curve, begin) for begin, end in spans)


def _integral(power: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    total, curve = 0.0, list(power[:1])
    if not curve:
        return []
    curve = [(power[0][0], 0.0)]
    for (t0, watts0), (t1, watts1) in itertools.pairwise(power):
        total += (watts0 + watts1) / 2 * (t1 - t0) * 1e-9
        curve.append((t1, total))
    return curve


def _at(curve: Sequence[tuple[int, float]], t_ns: int) -> float:
    """The curve at `t_ns`, linear between samples and continued at its ends with the slope there."""
    index = min(max(bisect_right(curve, t_ns, key=lambda point: point[0]), 1), len(curve) - 1)
    (t0, low), (t1, high) = curve[index - 1], curve[index]
    return low if t1 == t0 else low + (high - low) * (t_ns - t0) / (t1 - t0)
