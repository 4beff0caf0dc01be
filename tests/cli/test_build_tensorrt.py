"""`trtspec build` for runtime tensorrt_llm, as a user types it."""

from __future__ import annotations

import io
import json
import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from tests.builders import toy_spec
from tests.building.tensorrt.gpu_box import GpuBox, make_gpu_box
from trtspec.cli.activity import ActivityBoard
from trtspec.cli.main import cli


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GpuBox:
    return make_gpu_box(tmp_path, monkeypatch)


def run(box: GpuBox, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["build", str(box.spec_file.path), *arguments])


def test_build_then_cached(box: GpuBox) -> None:
    first = run(box)
    assert first.exit_code == 0, first.stderr
    assert first.stdout.count(" built ") == 3
    assert first.stdout.endswith(f"next: trtspec repo {box.spec_file.path}\n")
    assert "convert baseline + target …" in first.stderr
    assert "build draft: done" in first.stderr
    second = json.loads(run(box, "--output", "json").stdout)
    assert [engine["cached"] for engine in second["engines"]] == [True] * 3
    assert "next: " not in run(box, "--role", "draft").stdout  # there is no repository without all three
    assert run(box, "--role", "draft", "--output", "quiet").stdout.strip() == second["engines"][2]["path"]
    assert len(box.starts()) == 5


def test_dry_run_for_people(box: GpuBox) -> None:
    shown = run(box, "--dry-run")
    assert shown.exit_code == 0
    assert shown.stdout.startswith("# TensorRT-LLM 1.2.1, version from: installed; SM 90 (NVIDIA H100 80GB HBM3)")
    assert "# 1. convert baseline + target\n" in shown.stdout
    assert "trtllm-build \\\n  --checkpoint_dir" in shown.stdout
    assert "512 → 520" in shown.stdout
    assert "# disk: about " in shown.stdout
    assert not box.engines.exists()
    run(box)
    assert run(box, "--dry-run").stdout.count("(cached)") == 8


def test_a_dry_run_is_a_shell_script(box: GpuBox) -> None:
    script = run(box, "--dry-run").stdout
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=True, capture_output=True).stderr == ""
    starts = ("#", "mkdir -p ", "  --", "trtllm-build", "trtspec engines show ", "python", "/")
    assert [line for line in script.splitlines() if line and not line.startswith(starts)] == []
    assert script.count("the longest prompt is") == 1  # the same for three roles


def test_dry_run_for_programs(box: GpuBox) -> None:
    data = json.loads(run(box, "--dry-run", "--output", "json").stdout)
    keys = {"role", "stage", "argv", "env", "cwd", "inputs", "outputs", "cached"}
    assert all(keys <= set(step) for step in data["steps"])
    assert [step["stage"] for step in data["steps"] if step["role"] == "draft"] == ["convert", "build", "inspect"]
    assert data["toolchain"]["version"] == "1.2.1"
    assert data["sizes"]["target"]["max_seq_len"] == {
        "asked": 512,
        "written": 520,
        "why": data["sizes"]["target"]["max_seq_len"]["why"],
    }
    assert data["space"]["needed_bytes"] == sum(folder["bytes"] for folder in data["space"]["folders"])


def test_a_failure_with_its_log_cause_and_way_out(box: GpuBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_FAIL", "out_of_memory")
    monkeypatch.setenv("STAND_IN_STAGE", "convert")
    failed = run(box, "--role", "draft", "--output", "json")
    assert failed.exit_code == 4
    error = json.loads(failed.stdout)["error"]
    assert error["type"] == "StepFailed"
    assert (error["step"]["stage"], error["step"]["failure"]) == ("convert", "gpu-memory")
    assert Path(error["step"]["log"]).is_file()
    text = run(box, "--role", "draft").stderr
    assert "convert of draft failed (exit code 1)" in text
    assert "| torch.OutOfMemoryError" in text
    assert "likely cause: the GPU's memory did not suffice" in text
    assert "next: " in text


def test_findings_of_a_rejected_engine_are_in_the_json(box: GpuBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_CONFIG", json.dumps({"build_config": {"max_draft_len": 2}}))
    failed = run(box, "--role", "target", "--output", "json")
    assert failed.exit_code == 4
    error = json.loads(failed.stdout)["error"]
    assert error["type"] == "EngineRejected"
    assert [finding["level"] for finding in error["findings"]] == ["error"] * len(error["findings"])
    assert error["findings"]


def test_exit_codes(box: GpuBox, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(box, "--in-docker", "tensorrt-llm/release:1.3.0").exit_code == 3
    assert run(box, "--jobs", "0").exit_code == 2
    (box.spec_file.root / "draft" / "model.safetensors").unlink()
    assert run(box).exit_code == 3
    assert run(box, "--dry-run").exit_code == 0


def test_options_of_the_other_runtime_are_not_taken_silently(tmp_path: Path) -> None:
    spec = str(toy_spec(tmp_path).path)
    for option in (["--jobs", "2"], ["--in-docker", "26.04"], ["--full-hash"], ["--reconvert"]):
        result = CliRunner().invoke(cli, ["build", spec, *option])
        assert result.exit_code == 2
        assert option[0] in result.stderr


def board(*, terminal: bool) -> tuple[ActivityBoard, io.StringIO]:
    stream = io.StringIO()
    return ActivityBoard(Console(file=stream, force_terminal=terminal, width=80)), stream


def test_activities_without_a_terminal_are_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtspec.cli.activity._PLAIN_EVERY", 0.0)
    shown, stream = board(terminal=False)
    with shown.show("build target") as tell:
        tell("[TRT] [I] step 1")
    first, second, third = stream.getvalue().splitlines()
    assert first == "build target …"
    assert second.startswith("build target: ")
    assert second.endswith("· [TRT] [I] step 1")
    assert third.startswith("build target: done")


def test_activities_on_a_terminal_share_one_live_view() -> None:
    shown, stream = board(terminal=True)
    with shown.show("build target") as one, shown.show("convert draft") as two:
        one("line of the first")
        two("line of the second")
        live = shown._live
        assert live is not None
        live.refresh()
    text = stream.getvalue()
    assert "line of the first" in text
    assert "line of the second" in text
    assert text.count("done") == 2
    assert shown._live is None
    with pytest.raises(KeyError), shown.show("build draft"):
        raise KeyError
    assert "failed" in stream.getvalue()
    with pytest.raises(KeyboardInterrupt), shown.show("build draft"):
        raise KeyboardInterrupt
    assert "stopped" in stream.getvalue()


def test_a_long_line_leaves_the_label_and_the_time_whole() -> None:
    shown, stream = board(terminal=True)
    with shown.show("convert baseline + target") as tell:
        tell("[11/29/2026-21:29:46] [TRT-LLM] [I] " + "x" * 200)
        assert shown._live is not None
        shown._live.refresh()
    text = stream.getvalue()
    assert "…" in text
    assert "[TRT-LLM] [I] xxx" in text
    assert "11/29/2026" not in text
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert re.search(r"convert baseline \+ target {2,}\d+ ms {2,}\[TRT-LLM\]", plain)
