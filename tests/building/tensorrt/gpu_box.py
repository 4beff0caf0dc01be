"""A machine with GPUs and TensorRT-LLM, as far as building goes: the stand-in's programs, GPUs that NVML lists."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import toy_spec
from tests.building.tensorrt.stand_in import StandIn, install_stand_in
from trtspec.hardware.detect import DetectedGpu
from trtspec.spec import SpecFile, load_spec

__all__ = ["BOX_MAIN", "GpuBox", "h100", "make_gpu_box"]

# what a process of its own needs to see GPUs: `python -c BOX_MAIN GPUS ARGUMENTS…`, trtspec with detection replaced
BOX_MAIN = """
import sys
from tests.building.tensorrt.gpu_box import h100
import trtspec.building.tensorrt.site as site
count = int(sys.argv.pop(1))
site.detect_gpus = lambda: (tuple(h100(index) for index in range(count)), None)
from trtspec.cli.main import cli
cli(sys.argv[1:], prog_name="trtspec")
"""
_ROOT = Path(__file__).parents[3]


def h100(index: int = 0) -> DetectedGpu:
    """One H100 as NVML describes it."""
    return DetectedGpu(index, "NVIDIA H100 80GB HBM3", 90, 80 << 30, 80 << 30, "590.44.01", mig=False, known=None)


@dataclass
class GpuBox:
    """A spec of a tiny pair for runtime tensorrt_llm beside an installed stand-in, which logs each start."""

    spec_file: SpecFile
    stand_in: StandIn
    log: Path
    gpus: int
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def engines(self) -> Path:
        """The folder that the build writes."""
        return self.spec_file.root / "engines" / self.spec_file.spec.name

    def starts(self) -> list[dict[str, Any]]:
        """Each program that was started so far: program, argv, cwd, cuda_visible_devices."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def programs(self) -> list[str]:
        """What was started so far, in order: `convert`, `quantize` or `build ROLE`."""
        return [_described(start["program"], start["argv"]) for start in self.starts()]

    def edit(self, **sections: Any) -> SpecFile:
        """Replace top-level sections of the spec; None removes one."""
        data = {**yaml.safe_load(self.spec_file.path.read_text()), **sections}
        self.spec_file.path.write_text(yaml.safe_dump({key: value for key, value in data.items() if value is not None}))
        self.spec_file = load_spec(self.spec_file.path)
        return self.spec_file

    def popen(self, *arguments: str, main: str = BOX_MAIN, **env: str) -> subprocess.Popen[str]:
        """`trtspec build SPEC ARGUMENTS` as a process of its own, which runs the Python code `main`."""
        argv = [sys.executable, "-c", main, str(self.gpus), "build", str(self.spec_file.path), *arguments]
        python_path = os.pathsep.join([str(_ROOT), self.stand_in.env["PYTHONPATH"]])
        return subprocess.Popen(
            argv,
            env={**os.environ, **self.stand_in.env, "PYTHONPATH": python_path, "STAND_IN_LOG": str(self.log), **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def leftovers(self) -> list[str]:
        """Names of temporary folders and running logs below engines/."""
        return sorted(path.name for path in self.engines.rglob("*") if ".partial-" in path.name)


def _described(program: str, argv: list[str]) -> str:
    if program != "trtllm-build":
        return program.partition("_")[0].removesuffix(".py")
    return f"build {Path(argv[argv.index('--output_dir') + 1]).parent.name}"


def make_gpu_box(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, gpus: int = 1, version: str = "1.2.1", **sections: Any
) -> GpuBox:
    """A `GpuBox` in `folder`, with this process seeing its programs and GPUs as well."""
    stand_in = install_stand_in(folder / "stand-in", version)
    log = folder / "starts.jsonl"
    for name, value in {**stand_in.env, "STAND_IN_LOG": str(log)}.items():
        if name != "PYTHONPATH":
            monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(str(stand_in.folder / "site"))
    found = tuple(h100(index) for index in range(gpus))
    monkeypatch.setattr("trtspec.building.tensorrt.site.detect_gpus", lambda: (found, None))
    (folder / "pair").mkdir()
    defaults: dict[str, Any] = {
        "runtime": "tensorrt_llm",
        "target": {"checkpoint": "target", "dtype": "float16"},
        "draft": {"checkpoint": "draft", "dtype": "float16"},
        "tensorrt_llm": {"examples": str(stand_in.examples)},
    }
    return GpuBox(toy_spec(folder / "pair", **{**defaults, **sections}), stand_in, log, gpus)
