from __future__ import annotations

import os
from pathlib import Path

import pytest

from trtspec import cores


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty tree of control groups; the process has eight cores and is in the group /pod/box."""
    monkeypatch.setattr(cores, "_GROUPS", tmp_path)
    monkeypatch.setattr(cores, "_OF_PROCESS", tmp_path / "cgroup")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(8)), raising=False)
    (tmp_path / "cgroup").write_text("0::/pod/box\n")
    return tmp_path


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_a_limit_all_cores(groups: Path) -> None:
    assert cores.usable_cores() == 8
    _write(groups / "pod" / "box" / "cpu.max", "max 100000\n")
    assert cores.usable_cores() == 8


@pytest.mark.parametrize(("text", "count"), [("200000 100000", 2), ("150000 100000", 2), ("20000 100000", 1)])
def test_a_quota_is_rounded_up(groups: Path, text: str, count: int) -> None:
    _write(groups / "pod" / "box" / "cpu.max", text)
    assert cores.usable_cores() == count


def test_the_smallest_quota_above_counts(groups: Path) -> None:
    _write(groups / "pod" / "box" / "cpu.max", "600000 100000")
    _write(groups / "pod" / "cpu.max", "300000 100000")
    assert cores.usable_cores() == 3


def test_the_first_version_of_control_groups(groups: Path) -> None:
    _write(groups / "cgroup", "4:memory:/x\n3:cpu,cpuacct:/docker/a\n0::/\n")
    _write(groups / "cpu" / "docker" / "a" / "cpu.cfs_quota_us", "400000\n")
    _write(groups / "cpu" / "docker" / "a" / "cpu.cfs_period_us", "100000\n")
    assert cores.usable_cores() == 4
    _write(groups / "cpu" / "docker" / "a" / "cpu.cfs_quota_us", "-1\n")
    assert cores.usable_cores() == 8


@pytest.mark.parametrize("text", ["", "nonsense", "0 0", "100000 x"])
def test_what_says_nothing_limits_nothing(groups: Path, text: str) -> None:
    _write(groups / "pod" / "box" / "cpu.max", text)
    _write(groups / "cgroup", f"{text}\n0::/pod/box\n")
    assert cores.usable_cores() == 8


def test_a_system_without_control_groups(groups: Path) -> None:
    (groups / "cgroup").unlink()
    assert cores.usable_cores() == 8
