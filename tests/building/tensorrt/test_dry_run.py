"""`trtspec build --dry-run --output json` for the three real pairs: each step held against the contract."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.building.tensorrt.contract import options, violations
from tests.building.tensorrt.pairs import PAIRS, VERSIONS
from trtspec.cli.main import cli

ORDER = {
    "llama-3.1-70b-fp8": ["quantize", "build", "inspect", "build", "inspect", "convert", "build", "inspect"],
    "qwen2.5-72b": ["convert", "build", "inspect", "build", "inspect", "convert", "build", "inspect"],
    "gemma-2-27b": ["convert", "build", "inspect", "build", "inspect", "convert", "build", "inspect"],
}


def steps_of(folder: Path, pair: str, version: str) -> list[dict[str, Any]]:
    path = PAIRS[pair].spec(folder, version).path
    result = CliRunner().invoke(cli, ["build", str(path), "--dry-run", "--output", "json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    steps: list[dict[str, Any]] = json.loads(result.stdout)["steps"]
    return steps


@pytest.mark.parametrize("minor", VERSIONS)
@pytest.mark.parametrize("pair", PAIRS)
def test_every_step_keeps_the_contract(tmp_path: Path, pair: str, minor: str) -> None:
    steps = steps_of(tmp_path, pair, VERSIONS[minor])
    programs = [step for step in steps if step["stage"] != "inspect"]
    for step in programs:
        assert violations(step["argv"], minor) == [], step["id"]
    folders = {
        str(Path(output).parent) for step in programs for output in step["outputs"]
    }  # what a step writes is where its command is told to write
    told = {value for step in programs for name, value in options(step["argv"]).items() if name in _OUTPUTS}
    assert told == folders


_OUTPUTS = ("--output_dir", "--output-model-dir")


@pytest.mark.parametrize("pair", PAIRS)
def test_one_checkpoint_for_baseline_and_target_and_each_engine_after_its_own(tmp_path: Path, pair: str) -> None:
    steps = steps_of(tmp_path, pair, "1.2.1")
    assert [step["stage"] for step in steps] == ORDER[pair]
    assert len({step["id"] for step in steps}) == len(steps)
    for index, step in enumerate(steps):
        if step["stage"] == "build":
            source = options(step["argv"])["--checkpoint_dir"]
            assert any(output.startswith(f"{source}/") for earlier in steps[:index] for output in earlier["outputs"])
    working = [step["cwd"] for step in steps if step["stage"] == "build"]
    assert len(set(working)) == 3  # two builds in one directory would share model.cache


def test_another_release_is_refused(tmp_path: Path) -> None:
    path = PAIRS["gemma-2-27b"].spec(tmp_path, "1.3.0rc20").path
    result = CliRunner().invoke(cli, ["build", str(path), "--dry-run"])
    assert result.exit_code == 3
    assert "1.3" in result.stderr
