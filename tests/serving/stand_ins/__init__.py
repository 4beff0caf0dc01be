"""Programs that behave like tritonserver, mpirun and docker as far as `trtspec serve` can tell.

Each notes its command line in calls.jsonl of the folder. They share no code with trtspec.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["StandIns", "install_stand_ins"]

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class StandIns:
    """The folder with the programs; `path` is a PATH on which they come first."""

    folder: Path

    @property
    def path(self) -> str:
        return f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"

    def calls(self, program: str) -> list[dict[str, Any]]:
        """Every start of a program: argv, env (of the variables that matter)."""
        log = self.folder / "calls.jsonl"
        lines = log.read_text().splitlines() if log.exists() else []
        return [call for line in lines if (call := json.loads(line))["program"] == program]

    def events(self) -> list[str]:
        """What the servers did: `load NAME`, `unload NAME`, `terminated`."""
        log = self.folder / "events"
        return log.read_text().splitlines() if log.exists() else []


def install_stand_ins(folder: Path, *programs: str) -> StandIns:
    """Put `programs` (default: all) into `folder`/bin, and TensorRT-LLM's backend beside tritonserver."""
    for name in programs or ("tritonserver", "mpirun", "docker"):
        target = folder / "bin" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        source = (_HERE / f"{name}.py").read_text()
        target.write_text(f"#!{sys.executable} -IS\nFOLDER = {str(folder)!r}\n{source}")
        target.chmod(0o755)
    (folder / "backends" / "tensorrtllm").mkdir(parents=True, exist_ok=True)
    return StandIns(folder)
