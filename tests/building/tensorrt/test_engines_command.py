"""`trtspec engines` on what a build of runtime tensorrt_llm leaves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from tests.building.tensorrt.gpu_box import GpuBox
from trtspec.building import build_engines
from trtspec.cli.main import cli
from trtspec.errors import TrtspecError


def engines(box: GpuBox, name: str, *arguments: str) -> Any:
    result = CliRunner().invoke(cli, ["engines", name, *arguments, "--output", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def listed(box: GpuBox) -> list[tuple[str, str | None, str, bool]]:
    entries = engines(box, "list", str(box.spec_file.path))["entries"]
    return [(entry["kind"], entry["role"], entry["state"], bool(entry["used_by"])) for entry in entries]


BUILT = [
    ("engine", "baseline", "finished", True),
    ("checkpoint", None, "finished", True),
    ("checkpoint", None, "finished", True),
    ("engine", "draft", "finished", True),
    ("engine", "target", "finished", True),
]


def test_everything_of_a_build_is_listed_and_used(box: GpuBox) -> None:
    build_engines(box.spec_file)
    assert listed(box) == BUILT
    entries = engines(box, "list", str(box.spec_file.path))["entries"]
    assert {entry["version"] for entry in entries} == {"1.2.1"}
    assert {entry["sm"] for entry in entries if entry["kind"] == "engine"} == {90}
    assert engines(box, "prune", str(box.spec_file.path), "--dry-run")["removed"] == []


def test_another_draft_length_leaves_one_engine_unused(box: GpuBox) -> None:
    build_engines(box.spec_file)
    box.edit(speculation={"draft_length": 12})
    assert [row for row in listed(box) if not row[3]] == [("engine", "target", "finished", False)]
    [gone] = engines(box, "prune", str(box.spec_file.path), "--yes")["removed"]
    assert "/target/" in gone["path"]
    assert [engine.role for engine in build_engines(box.spec_file) if not engine.cached] == ["target"]


def test_converted_checkpoints_go_when_asked_for(box: GpuBox) -> None:
    build_engines(box.spec_file)
    removed = engines(box, "prune", str(box.spec_file.path), "--checkpoints", "--yes")["removed"]
    assert [item["kind"] for item in removed] == ["checkpoint", "checkpoint"]
    assert all(engine.cached for engine in build_engines(box.spec_file))


def test_the_log_of_a_failed_build_is_listed(box: GpuBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_FAIL", "out_of_memory")
    monkeypatch.setenv("STAND_IN_STAGE", "build")
    with pytest.raises(TrtspecError):
        build_engines(box.spec_file)
    found = listed(box)
    assert ("log", "baseline", "left over", False) in found
    assert ("checkpoint", None, "finished", True) in found
    assert not [row for row in found if row[0] == "engine"]


def test_an_engine_of_a_build_shows_nothing_wrong(box: GpuBox) -> None:
    for engine in build_engines(box.spec_file):
        shown = engines(box, "show", str(engine.path))
        assert shown["findings"] == []
        assert shown["role"] == engine.role
        assert shown["manifest"]["gpu"] == "NVIDIA H100 80GB HBM3"
