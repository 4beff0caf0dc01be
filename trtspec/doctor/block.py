"""The examination as JSON and as plain text to paste into an issue, with nothing private in it."""

from __future__ import annotations

import getpass
import re
import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trtspec import __version__
from trtspec.doctor.examination import Examination
from trtspec.doctor.verdicts import ANYWHERE, RuntimeVerdict, Verdict
from trtspec.hardware.detect import DetectedGpu
from trtspec.units import bytes_text

__all__ = ["issue_block", "to_json", "without_private"]


def to_json(found: Examination, runtimes: Sequence[RuntimeVerdict]) -> dict[str, Any]:
    """The document of `trtspec doctor --output json`: `facts` are {value, reason}, sizes in bytes."""
    document = {
        "schema": 1,
        "trtspec": __version__,
        "facts": {name: {"value": value, "reason": reason} for name, value, reason in _facts(found)},
        "gpus": [_gpu_json(gpu) for gpu in found.gpus],
        "packages": dict(found.packages),
        "ports": [
            {"protocol": state.protocol, "port": state.port, "free": state.problem is None, "problem": state.problem}
            for state in found.ports
        ],
        "runtimes": {
            runtime.runtime: {
                "usable": runtime.usable,
                "steps": {step.step: _step_json(step) for step in runtime.steps},
            }
            for runtime in runtimes
        },
        "anywhere": list(ANYWHERE),
    }
    cleaned: dict[str, Any] = _cleaned(document)
    return cleaned


def issue_block(found: Examination, runtimes: Sequence[RuntimeVerdict]) -> str:
    """The same as fenced text."""
    rows = [("trtspec", __version__), *_machine_rows(found), *_gpu_rows(found), *_software_rows(found)]
    rows += [
        (f"{runtime.runtime}, {step.step}", _step_text(step).replace(f"no GPU: {found.gpu_reason}", "no GPU"))
        for runtime in runtimes
        for step in runtime.steps
    ]
    rows.append(("anywhere", ", ".join(ANYWHERE)))
    width = max(len(name) for name, _ in rows) + 2
    lines = [line for name, value in rows for line in _wrapped(name.ljust(width), without_private(value))]
    return "\n".join(["```text", *lines, "```"])


def _wrapped(label: str, text: str) -> list[str]:
    """The label and the text, which goes on below itself where a line would be too long."""
    return textwrap.wrap(
        text, _WIDTH, initial_indent=label, subsequent_indent=" " * len(label), break_long_words=False,
        break_on_hyphens=False,
    ) or [label.rstrip()]  # fmt: skip


_WIDTH = 80


def without_private(text: str) -> str:
    """`text` with the home folder as `~` and the user's name out of every path."""
    home = str(Path.home())
    if len(home) > 1:
        text = re.sub(rf"{re.escape(home)}(?=/|\b)", "~", text)
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without an entry
        return text
    return re.sub(rf"(?<=/){re.escape(user)}(?=/|$|\s)", "…", text) if len(user) > 1 else text


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _cleaned(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_cleaned(inner) for inner in value]
    return without_private(value) if isinstance(value, str) else value


def _facts(found: Examination) -> list[tuple[str, Any, str | None]]:
    """(name, value, why there is none) of everything that is one value."""
    toolchain = found.toolchain
    triton = found.triton
    plain = "runs on the machine itself" if found.container is None else None
    return [
        ("python", found.python, None),
        ("platform", found.machine.get("system"), None),
        ("cpu", found.machine.get("cpu"), None),
        ("cpus", found.machine.get("cpus"), None),
        ("memory_bytes", found.machine.get("memory_bytes"), None),
        ("container", found.container, plain),
        ("disk_free_bytes", found.storage.disk_free, None),
        ("shm_bytes", found.storage.shm_total, None if found.storage.shm_total is not None else "no /dev/shm"),
        ("gpu_count", len(found.gpus) if found.gpus or found.driver_reason is None else None, found.gpu_reason),
        ("driver", found.driver.version, found.driver_reason),
        ("driver_cuda", found.driver.cuda, found.driver_reason if found.driver.cuda is None else None),
        ("cuda_visible_devices", found.visible_devices, None if found.visible_devices is not None else "not set"),
        ("cuda_toolkit", found.toolkit.version, found.toolkit.reason),
        ("torch_cuda", found.torch_cuda.version, found.torch_cuda.reason),
        ("mpi", found.mpi.version, found.mpi.reason),
        ("tensorrt_llm", found.tensorrt_llm, None if found.tensorrt_llm else "not installed"),
        ("tensorrt_llm_meant", toolchain.version if toolchain else None, found.toolchain_reason),
        ("tensorrt_llm_decided_by", toolchain.origin if toolchain else None, found.toolchain_reason),
        (
            "image_meant",
            toolchain.image if toolchain else None,
            None if toolchain and toolchain.image else "none given",
        ),
        ("trtllm_build", *_or_reason(shutil.which("trtllm-build"), "not on PATH")),
        ("tritonserver", *_or_reason(triton.path, "not on PATH")),
        ("tritonserver_version", *_or_reason(triton.version, "no tritonserver" if not triton.path else "not told")),
        ("embedded_triton", triton.embedded, triton.embedded_reason),
        ("docker", found.docker.server, None if found.docker.server else found.docker.reason),
        ("docker_gpus", found.docker.nvidia, None if found.docker.nvidia is not None else found.docker.reason),
    ]


def _or_reason(value: str | None, reason: str) -> tuple[str | None, str | None]:
    return (value, None) if value else (None, reason)


def _gpu_json(gpu: DetectedGpu) -> dict[str, Any]:
    return {
        "index": gpu.index,
        "name": gpu.name,
        "sm": gpu.sm,
        "memory_bytes": gpu.memory_bytes,
        "free_bytes": gpu.free_bytes,
        "mig": gpu.mig,
        "known_as": gpu.known.name if gpu.known else None,
    }


def _step_json(step: Verdict) -> dict[str, Any]:
    return {
        "usable": step.usable,
        "reasons": list(step.reasons),
        "cautions": list(step.cautions),
        "fixes": list(step.fixes),
    }


def _machine_rows(found: Examination) -> list[tuple[str, str]]:
    machine = found.machine
    shm = "none" if found.storage.shm_total is None else bytes_text(found.storage.shm_total)
    memory = bytes_text(machine.get("memory_bytes") or 0)
    return [
        ("python", found.python),
        ("platform", f"{machine.get('system')}; container: {found.container or 'no'}"),
        ("cpu", f"{machine.get('cpus')} × {machine.get('cpu')}, {memory} memory"),
        ("storage", f"{bytes_text(found.storage.disk_free)} free here, /dev/shm {shm}"),
        ("ports", ", ".join(f"{state.port} {state.problem or 'free'}" for state in found.ports)),
    ]


def _gpu_rows(found: Examination) -> list[tuple[str, str]]:
    rows = [(f"gpu {gpu.index}", _gpu_text(gpu)) for gpu in found.gpus] or [("gpus", f"none: {found.gpu_reason}")]
    driver = f"{found.driver.version}, CUDA {found.driver.cuda}" if found.driver.version else None
    unknown = "unknown" if found.driver_reason == found.gpu_reason else f"unknown: {found.driver_reason}"
    rows.append(("driver", driver or unknown))
    if found.visible_devices is not None:
        rows.append(("CUDA_VISIBLE_DEVICES", found.visible_devices or "(empty)"))
    return rows


def _gpu_text(gpu: DetectedGpu) -> str:
    memory = "memory unknown" if gpu.memory_bytes is None else bytes_text(gpu.memory_bytes)
    free = "" if gpu.free_bytes is None else f" ({bytes_text(gpu.free_bytes)} free)"
    return f"{gpu.name}, SM {gpu.sm}, {memory}{free}{', MIG' if gpu.mig else ''}"


def _software_rows(found: Examination) -> list[tuple[str, str]]:
    packages = ", ".join(f"{name} {version or '-'}" for name, version in found.packages.items())
    toolchain, triton = found.toolchain, found.triton
    meant = f"{toolchain.version} ({toolchain.origin})" if toolchain else f"undecided: {found.toolchain_reason}"
    on_path = f"{triton.version or 'version unknown'} at {triton.path}" if triton.path else "not on PATH"
    backend = ", with backend tensorrtllm" if triton.tensorrtllm_backend else ""
    embedded = triton.embedded or f"none: {triton.embedded_reason}"
    return [
        ("packages", packages),
        ("torch's CUDA", found.torch_cuda.version or f"none: {found.torch_cuda.reason}"),
        ("cuda toolkit", found.toolkit.version or f"none: {found.toolkit.reason}"),
        ("mpi", found.mpi.version or f"none: {found.mpi.reason}"),
        ("TensorRT-LLM", f"installed: {found.tensorrt_llm or 'no'}; meant: {meant}"),
        ("tritonserver", f"{on_path}{backend}; embedded (nvidia-pytriton): {embedded}"),
        ("docker", _docker_text(found)),
    ]


def _docker_text(found: Examination) -> str:
    docker = found.docker
    if docker.server is None:
        return f"no: {docker.reason}"
    return f"{docker.server}, {'with' if docker.nvidia else 'without'} the NVIDIA container toolkit"


def _step_text(step: Verdict) -> str:
    cautions = f" (careful: {'; '.join(step.cautions)})" if step.cautions else ""
    return f"{'yes' if step.usable else 'no'}{': ' if step.reasons else ''}{'; '.join(step.reasons)}{cautions}"
