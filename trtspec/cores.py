"""How many CPU cores this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path, PurePosixPath

__all__ = ["usable_cores"]

_GROUPS = Path("/sys/fs/cgroup")
_OF_PROCESS = Path("/proc/self/cgroup")


def usable_cores() -> int:
    """Cores that the process may run on, by its affinity and by the CPU quota of its control groups; at least 1.

    A container with `--cpus 2` sees all cores of its host and gets the time of two of them; more threads than that
    stand still for most of every period. Source: "cpu.max" in the Linux kernel's Control Group v2 guide, and
    "cpu.cfs_quota_us" in its CFS Bandwidth Control page.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([cores, *(math.ceil(quota) for quota in _quotas())]))


def _quotas() -> list[float]:
    """Cores' worth of time that each group above this process grants; groups without a limit are left out."""
    found = []
    for line in _lines(_OF_PROCESS):
        if line.count(":") < 2:
            continue
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            places = [_GROUPS / place for place in _ancestors(path)]
            found += [_ratio(*_text(place / "cpu.max").split()[:2]) for place in places]
        elif "cpu" in controllers.split(","):
            places = [_GROUPS / mount / place for mount in ("cpu", "cpu,cpuacct") for place in _ancestors(path)]
            found += [_ratio(_text(place / "cpu.cfs_quota_us"), _text(place / "cpu.cfs_period_us")) for place in places]
    return [quota for quota in found if quota is not None]


def _ancestors(path: str) -> list[str]:
    inner = PurePosixPath(path.lstrip("/"))
    return [str(place) for place in (inner, *inner.parents)]


def _ratio(quota: str = "", period: str = "") -> float | None:
    """None for no limit ("max", -1) and for what is not there."""
    if not (quota.isdigit() and period.isdigit()) or int(quota) * int(period) == 0:
        return None
    return int(quota) / int(period)


def _text(path: Path) -> str:
    return " ".join(_lines(path)).strip()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split("\n")[:64]
    except (OSError, ValueError):
        return []
