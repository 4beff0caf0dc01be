"""Programs that fail: what is said, what is kept, and what is not left behind."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.building.tensorrt.gpu_box import GpuBox, make_gpu_box
from trtspec.building import BuildSettings, build_engines
from trtspec.errors import BuildError, StepFailed
from trtspec.progress import SilentReporter

# what is said of each way in which the stand-in can fail: in every stage one of these ids
KNOWN = {
    "out_of_memory": {"gpu-memory", "scratch-space"},
    "unsupported_architecture": {"architecture"},
    "missing_tensor": {"missing-tensor", "quantization-mismatch"},
    "wrong_sm": {"wrong-sm"},
    "quantization_mismatch": {"quantization-mismatch"},
    "no_gpu": {"no-gpu"},
    "disk_full": {"disk-full"},
    "crash": {"crash"},
}


def folders(box: GpuBox) -> list[Path]:
    """What looks like a finished engine or checkpoint."""
    return [path.parent for path in box.engines.rglob("manifest.json")]


@pytest.mark.parametrize("stage", ["convert", "build"])
@pytest.mark.parametrize("failure", KNOWN)
def test_each_known_failure_is_explained(
    box: GpuBox, monkeypatch: pytest.MonkeyPatch, failure: str, stage: str
) -> None:
    monkeypatch.setenv("STAND_IN_FAIL", failure)
    monkeypatch.setenv("STAND_IN_STAGE", stage)
    with pytest.raises(StepFailed) as caught:
        build_engines(box.spec_file, ["draft"])
    step = caught.value.step
    assert (step.role, step.stage) == ("draft", stage)
    assert step.failure in KNOWN[failure]
    assert step.cause
    assert caught.value.fix
    assert step.exit_code == (-11 if failure == "crash" else 1)
    log = Path(step.log)
    assert log.name.endswith(".failed.log")
    assert step.log_tail
    assert step.log_tail[-1] in log.read_text()
    assert [path.parent.name for path in folders(box)] == (["checkpoints"] if stage == "build" else [])
    assert box.leftovers() == []


def test_quantizer_failures_name_the_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = {"checkpoint": "target", "dtype": "float16", "quantization": "fp8"}
    box = make_gpu_box(tmp_path, monkeypatch, target=target)
    monkeypatch.setenv("STAND_IN_FAIL", "out_of_memory")
    with pytest.raises(StepFailed, match=r"quantize of baseline \+ target failed") as caught:
        build_engines(box.spec_file)
    assert caught.value.step.failure == "gpu-memory"
    assert box.programs() == ["quantize"]


def test_what_was_finished_before_a_failure_is_kept(box: GpuBox, monkeypatch: pytest.MonkeyPatch) -> None:
    build_engines(box.spec_file, ["baseline"])
    monkeypatch.setenv("STAND_IN_FAIL", "no_gpu")
    monkeypatch.setenv("STAND_IN_STAGE", "build")
    with pytest.raises(StepFailed):
        build_engines(box.spec_file)
    monkeypatch.delenv("STAND_IN_FAIL")
    build_engines(box.spec_file)
    assert box.programs()[2:] == ["build target", "build target", "convert", "build draft"]


def test_a_program_that_ends_well_without_its_output(box: GpuBox) -> None:
    box.stand_in.trtllm_build.write_text("#!/bin/sh\necho nothing to do\n")
    with pytest.raises(StepFailed, match=r"ended without an error but did not write config\.json, rank0\.engine"):
        build_engines(box.spec_file, ["draft"])


def test_a_program_that_is_gone(box: GpuBox) -> None:
    box.stand_in.trtllm_build.write_text("#!/nowhere/python\n")
    with pytest.raises(BuildError, match="cannot be started"):
        build_engines(box.spec_file, ["draft"])
    assert box.leftovers() == []


def test_too_little_space_is_said_before_anything_starts(box: GpuBox, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(box.spec_file.root)._replace(free=100 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(
        BuildError, match=r"needed \(convert draft .*, build draft .*\), only 100 MiB are free"
    ) as caught:
        build_engines(box.spec_file, ["draft"])
    assert caught.value.where == str(box.spec_file.root)
    assert box.starts() == []


def test_a_disk_that_fills_while_we_write_ourselves(box: GpuBox, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("trtspec.building.tensorrt.making._copy_tokenizer", full)
    with pytest.raises(BuildError, match="the disk is full"):
        build_engines(box.spec_file, ["draft"])
    assert [path.parent.name for path in folders(box)] == ["checkpoints"]
    assert box.leftovers() == []


def test_a_file_size_limit_leaves_no_half_engine(box: GpuBox) -> None:
    """The program is ended by SIGXFSZ or an error while it writes, as on a disk that fills."""
    script = box.stand_in.trtllm_build
    real = script.with_name("real-build")
    script.rename(real)
    script.write_text(f'#!/bin/sh\nulimit -f 1\nexec {real} "$@"\n')
    script.chmod(0o755)
    with pytest.raises(StepFailed):
        build_engines(box.spec_file, ["draft"])
    assert [path.parent.name for path in folders(box)] == ["checkpoints"]
    assert box.leftovers() == []


class Notes(SilentReporter):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_a_conversion_larger_than_the_memory_is_warned_of(box: GpuBox, monkeypatch: pytest.MonkeyPatch) -> None:
    import psutil

    memory: Any = psutil.virtual_memory()._replace(available=1000)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    reporter = Notes()
    build_engines(box.spec_file, ["draft"], reporter=reporter)
    assert any("convert draft loads 226 KiB of weights; 1000 B of memory are free" in note for note in reporter.notes)


def test_roles_are_built_at_once_on_gpus_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = make_gpu_box(tmp_path, monkeypatch, gpus=2)
    build_engines(box.spec_file)
    seen = {name: start["cuda_visible_devices"] for name, start in zip(box.programs(), box.starts(), strict=True)}
    assert set(seen.values()) <= {"0", "1"}
    assert sorted(box.programs()) == sorted(["convert", "convert", "build baseline", "build target", "build draft"])


def test_one_job_leaves_all_gpus_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = make_gpu_box(tmp_path, monkeypatch, gpus=2)
    build_engines(box.spec_file, settings=BuildSettings(jobs=1))
    assert {start["cuda_visible_devices"] for start in box.starts()} == {None}
    assert {start["cuda_device_order"] for start in box.starts()} == {"PCI_BUS_ID"}  # as NVML counts, which told the SM
