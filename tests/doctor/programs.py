"""Programs on a PATH of their own: shell scripts that answer like docker, nvcc and mpirun."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

DOCKER_INFO: dict[str, object] = {"ServerVersion": "28.3.2", "Runtimes": {"runc": {}, "nvidia": {}}}


def program(folder: Path, name: str, output: str, code: int = 0) -> Path:
    """An executable `name` in `folder` that prints `output` and ends with `code`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n/bin/cat <<'END'\n{output}\nEND\nexit {code}\n")
    path.chmod(0o755)
    return path


def docker(folder: Path, info: Mapping[str, object] = DOCKER_INFO, *, before: str = "", code: int = 0) -> Path:
    """A docker whose `info` is this; `before` is what it warns of first."""
    return program(folder, "docker", f"{before}{json.dumps(info)}", code)


def triton(folder: Path, *, backend: bool = True, version: str | None = "2.66.0") -> Path:
    """A folder laid out like /opt/tritonserver; returns its bin folder."""
    program(folder / "bin", "tritonserver", "")
    if version is not None:
        (folder / "TRITON_VERSION").write_text(f"{version}\n")
    (folder / "backends" / ("tensorrtllm" if backend else "python")).mkdir(parents=True)
    return folder / "bin"
