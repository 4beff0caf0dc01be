"""A stand-in for TensorRT-LLM's command line tools: what the tests run instead, since it needs a GPU and its wheel.

What it is: programs named `trtllm-build`, `convert_checkpoint.py` and `quantize.py`, laid out as in NVIDIA's image.
They parse their arguments with argparse from the flag lists in tests/facts (unknown flags, wrong choices and
forbidden combinations end as they do there: exit status 2 from argparse, 1 with a traceback), read the configuration
they are given, and write folders of the shape that a version writes: config.json with every value that the builder
changes (max_seq_len, max_num_tokens, the context attention switches), and weight and engine files of a few kilobytes.

What it is not: it computes nothing, has no kernels and knows no memory. That a real TensorRT-LLM takes the same
arguments is only as sure as the sources named in tests/facts.

What it does is set by the environment:

===================  ==================================================================================
STAND_IN_FAIL        out_of_memory, unsupported_architecture, missing_tensor, wrong_sm, quantization_mismatch,
                     no_gpu, disk_full, crash (SIGSEGV), hang
STAND_IN_STAGE       which program fails or works long: convert, quantize, build; default: each
STAND_IN_SECONDS     how long the work takes; the output is half written meanwhile
STAND_IN_CONFIG      JSON object merged over the config.json that trtllm-build writes
STAND_IN_GPUS        GPUs that it sees (8)
STAND_IN_SM          their compute capability, 90 for 9.0 (90)
STAND_IN_LOG         file that gets a JSON line for each start: program, argv, cwd, pid, time
===================  ==================================================================================
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FACTS", "StandIn", "install_stand_in"]

FACTS = Path(__file__).parents[3] / "facts"
_ROOT = Path(__file__).parents[4]


@dataclass(frozen=True)
class StandIn:
    """An installed stand-in: `env` has what a child process needs to find it, `examples` is its examples folder."""

    folder: Path
    version: str
    env: dict[str, str]

    @property
    def examples(self) -> Path:
        """Laid out as /app/examples of NVIDIA's image."""
        return self.folder / "app" / "examples"

    @property
    def trtllm_build(self) -> Path:
        """The executable."""
        return self.folder / "bin" / "trtllm-build"


def install_stand_in(folder: Path, version: str = "1.2.1") -> StandIn:
    """Lay the stand-in of a TensorRT-LLM version out in `folder`; the version is also there as package metadata."""
    _program(folder / "bin" / "trtllm-build", "trtllm_build", version)
    examples = folder / "app" / "examples"
    _program(examples / "quantization" / "quantize.py", "quantize", version)
    for family, place in json.loads((FACTS / "converters.json").read_text())["places"].items():
        _program(examples / place / "convert_checkpoint.py", "convert_checkpoint", version, family)
    site = folder / "site"
    metadata = site / f"tensorrt_llm-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True, exist_ok=True)
    metadata.write_text(f"Metadata-Version: 2.1\nName: tensorrt_llm\nVersion: {version}\n")
    path = os.pathsep.join([str(folder / "bin"), os.environ.get("PATH", "")])
    python_path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    return StandIn(folder, version, {"PATH": path, "PYTHONPATH": python_path})


def _program(path: Path, module: str, version: str, *arguments: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shown = ", ".join(repr(item) for item in (version, *arguments))
    path.write_text(
        f"#!{shlex.quote(sys.executable)}\n"
        "import sys\n"
        f"sys.path.insert(0, {str(_ROOT)!r})\n"
        f"from tests.building.tensorrt.stand_in.{module} import main\n"
        f"main({shown})\n"
    )
    path.chmod(0o755)
