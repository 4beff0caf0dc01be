"""What is on this machine, each thing with the reason when it is not there. Starts docker, nvcc and mpirun at most."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtspec.errors import EnvironmentMissing

__all__ = [
    "PACKAGES",
    "Docker",
    "Storage",
    "Tool",
    "Triton",
    "container_kind",
    "cuda_toolkit",
    "docker_facts",
    "driver_cuda",
    "find_triton",
    "mpi",
    "output_of",
    "storage",
    "torch_cuda",
]

# distributions whose versions matter, in the order in which they are shown
PACKAGES = (
    "tensorrt-llm",
    "tensorrt",
    "torch",
    "transformers",
    "nvidia-modelopt",
    "tritonclient",
    "nvidia-pytriton",
    "numpy",
    "mpi4py",
)
_SECONDS = 2.0  # for each program that is asked


@dataclass(frozen=True)
class Tool:
    """A program or library: its version, or why it is not known."""

    version: str | None
    reason: str | None = None


@dataclass(frozen=True)
class Docker:
    """The docker on PATH: version of its server, and whether containers get GPUs (None: not known)."""

    server: str | None
    nvidia: bool | None
    reason: str | None = None


@dataclass(frozen=True)
class Triton:
    """Triton servers: the one on PATH (with the TensorRT-LLM backend or not) and the embedded one."""

    path: str | None
    version: str | None
    tensorrtllm_backend: bool
    image_month: str | None
    embedded: str | None
    embedded_reason: str | None
    embedded_fix: str | None


@dataclass(frozen=True)
class Storage:
    """Bytes: free where the command runs, and the size and free part of /dev/shm (None: there is none)."""

    disk_free: int
    shm_total: int | None
    shm_free: int | None


def output_of(argv: Sequence[str]) -> str | None:
    """What a program prints, stdout and stderr; None when it fails, hangs or is not there."""
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout + done.stderr if done.returncode == 0 else None


def container_kind(environ: Mapping[str, str], root: Path = Path("/")) -> str | None:
    """`kubernetes`, `docker` or `podman` where this runs in one; None on a plain machine."""
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "kubernetes"
    if (root / ".dockerenv").exists():
        return "docker"
    return "podman" if (root / "run" / ".containerenv").exists() else None


def cuda_toolkit() -> Tool:
    """The CUDA toolkit of the nvcc on PATH (its headers and compiler; engines need only the driver)."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        return Tool(None, "no nvcc on PATH (not needed to build or serve engines)")
    found = re.search(r"release (\d+\.\d+)", output_of([nvcc, "--version"]) or "")
    return Tool(found[1]) if found else Tool(None, "nvcc does not tell its version")


def driver_cuda(library: str = "libcuda.so.1") -> str | None:
    """Newest CUDA that the driver runs, asked from the driver's library; None without one. No context is made."""
    try:
        version = ctypes.c_int()
        failed = ctypes.CDLL(library).cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return None
    return None if failed or not version.value else f"{version.value // 1000}.{version.value % 1000 // 10}"


def mpi() -> Tool:
    """The MPI whose mpirun is on PATH (several ranks need one)."""
    program = shutil.which("mpirun") or shutil.which("mpiexec")
    if program is None:
        return Tool(None, "no mpirun on PATH (only engines with several ranks need it)")
    lines = (output_of([program, "--version"]) or "").strip().splitlines()
    return Tool(lines[0].strip()) if lines else Tool(None, "mpirun does not tell its version")


def torch_cuda() -> Tool:
    """The CUDA that the installed PyTorch is made for, read from its files (importing it takes seconds)."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return Tool(None, "torch is not installed")
    try:
        text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    except OSError:
        return Tool(None, "torch does not tell")
    found = re.search(r"^cuda\b[^=\n]*=\s*'([^']+)'", text, re.MULTILINE)
    return Tool(found[1]) if found else Tool(None, "a build for CPUs")


def docker_facts() -> Docker:
    """Whether docker works for this user, and whether it knows NVIDIA's container runtime."""
    program = shutil.which("docker")
    if program is None:
        return Docker(None, None, "docker is not on PATH")
    info = _json_object(output_of([program, "info", "--format", "{{json .}}"]))
    server = info.get("ServerVersion")
    if not isinstance(server, str) or not server:
        return Docker(None, None, "docker is there, but its server does not answer this user")
    toolkit = any(shutil.which(name) for name in ("nvidia-ctk", "nvidia-container-cli", "nvidia-container-runtime"))
    nvidia = "nvidia" in (info.get("Runtimes") or {}) or toolkit
    return Docker(server, nvidia, None if nvidia else "the NVIDIA container toolkit is not installed")


def _json_object(text: str | None) -> dict[str, Any]:
    start = (text or "").find("{")  # warnings may come first
    try:
        data, _ = json.JSONDecoder().raw_decode((text or "")[start:]) if start >= 0 else ({}, 0)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def find_triton(environ: Mapping[str, str]) -> Triton:
    """The tritonserver on PATH, and the one that nvidia-pytriton brings along."""
    from trtspec.serving.installation import find_installation

    path = shutil.which("tritonserver", path=environ.get("PATH"))
    home = Path(path).resolve().parent.parent if path else None
    version = _first_line(home / "TRITON_VERSION") if home else None
    embedded = reason = fix = None
    try:
        embedded = find_installation().version
    except EnvironmentMissing as error:
        reason, fix = error.message, error.fix
    return Triton(
        path=path,
        version=version or (environ.get("TRITON_SERVER_VERSION") if path else None),
        tensorrtllm_backend=home is not None and (home / "backends" / "tensorrtllm").is_dir(),
        image_month=environ.get("NVIDIA_TRITON_SERVER_VERSION") if path else None,
        embedded=embedded,
        embedded_reason=reason,
        embedded_fix=fix,
    )


def _first_line(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8").strip().splitlines()[0]
    except (OSError, UnicodeDecodeError, IndexError):
        return None


def storage(folder: Path, shm: Path = Path("/dev/shm")) -> Storage:  # noqa: S108  # its size is asked, nothing is put there
    """Free space of `folder`'s disk and of the shared memory that Triton's Python backend and NCCL use."""
    total, free = (None, None)
    if shm.is_dir():
        usage = shutil.disk_usage(shm)
        total, free = usage.total, usage.free
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return Storage(shutil.disk_usage(existing).free, total, free)
