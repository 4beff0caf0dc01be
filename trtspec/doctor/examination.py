"""Everything the doctor looks at, gathered once; the verdicts are drawn from it alone."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trtspec.doctor.machine import (
    PACKAGES,
    Docker,
    Storage,
    Tool,
    Triton,
    container_kind,
    cuda_toolkit,
    docker_facts,
    driver_cuda,
    find_triton,
    mpi,
    storage,
    torch_cuda,
)
from trtspec.errors import ServerError, TrtspecError
from trtspec.hardware.detect import DetectedGpu, Driver, Nvml, detect_driver, detect_gpus
from trtspec.provenance import machine_facts, package_versions
from trtspec.spec import SpecFile
from trtspec.spec.model import Serving, TensorRTLLM
from trtspec.toolchain.detect import Toolchain, installed_version, resolve_section

__all__ = ["Examination", "PortState", "examine"]


@dataclass(frozen=True)
class PortState:
    """One port the server would listen on; `problem` says who holds it, None: it is free."""

    protocol: str
    port: int
    problem: str | None


@dataclass(frozen=True)
class Examination:
    """What was found. Where something is absent, its reason says why; `toolchain` is the TensorRT-LLM that is meant."""

    gpus: tuple[DetectedGpu, ...]
    gpu_reason: str | None
    driver: Driver
    driver_reason: str | None
    toolkit: Tool
    torch_cuda: Tool
    mpi: Tool
    packages: Mapping[str, str | None]
    tensorrt_llm: str | None
    toolchain: Toolchain | None
    toolchain_reason: str | None
    toolchain_fix: str | None
    triton: Triton
    docker: Docker
    storage: Storage
    ports: tuple[PortState, ...]
    container: str | None
    visible_devices: str | None
    machine: Mapping[str, Any]
    python: str = field(default_factory=platform.python_version)


def examine(
    spec_file: SpecFile | None = None, *, environ: Mapping[str, str] | None = None, nvml: Nvml | None = None
) -> Examination:
    """Look at this machine for the spec's ports and TensorRT-LLM (without one: the defaults). Takes a second or two."""
    environment = os.environ if environ is None else environ
    gpus, gpu_reason = detect_gpus(nvml)
    driver, driver_reason = detect_driver(nvml)
    section = spec_file.spec.tensorrt_llm if spec_file else TensorRTLLM.model_construct()
    toolchain, toolchain_reason, toolchain_fix = _toolchain(section)
    return Examination(
        gpus=gpus,
        gpu_reason=gpu_reason,
        driver=driver if driver.cuda else Driver(driver.version, driver_cuda()),
        driver_reason=driver_reason,
        toolkit=cuda_toolkit(),
        torch_cuda=torch_cuda(),
        mpi=mpi(),
        packages=package_versions(PACKAGES),
        tensorrt_llm=installed_version(),
        toolchain=toolchain,
        toolchain_reason=toolchain_reason,
        toolchain_fix=toolchain_fix,
        triton=find_triton(environment),
        docker=docker_facts(),
        storage=storage(spec_file.root if spec_file else Path.cwd()),
        ports=_ports(spec_file.spec.serving if spec_file else Serving.model_construct()),
        container=container_kind(environment),
        visible_devices=environment.get("CUDA_VISIBLE_DEVICES"),
        machine=machine_facts(),
    )


def _toolchain(section: TensorRTLLM) -> tuple[Toolchain | None, str | None, str | None]:
    try:
        return resolve_section(section), None, None
    except TrtspecError as error:
        return None, error.message, error.fix


def _ports(serving: Serving) -> tuple[PortState, ...]:
    ports = {"http": serving.http_port, "grpc": serving.grpc_port, "metrics": serving.metrics_port}
    return tuple(PortState(protocol, port, _port_problem(serving.host, port)) for protocol, port in ports.items())


def _port_problem(host: str, port: int) -> str | None:
    from trtspec.serving.ports import is_free, port_holder

    try:
        if is_free(host, port):
            return None
    except ServerError as error:
        return error.message
    return f"in use by {port_holder(port) or 'another process'}"
