"""Examinations of machines that we do not have: a GPU box, one with docker alone, a laptop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.hardware.fake_nvml import FakeNvml, h100
from trtspec.doctor.examination import Examination, PortState
from trtspec.doctor.machine import Docker, Storage, Tool, Triton
from trtspec.hardware.detect import Driver, detect_driver, detect_gpus
from trtspec.toolchain.detect import Toolchain

GIB = 1 << 30
TORCH = {"torch": "2.9.1", "transformers": "4.57.3", "tensorrt-llm": None}


def laptop(**changes: Any) -> Examination:
    """No GPU, no docker; PyTorch and the embedded Triton are installed."""
    found = Examination(
        gpus=(),
        gpu_reason="NVML: NVML Shared Library Not Found",
        driver=Driver(None, None),
        driver_reason="NVML: NVML Shared Library Not Found",
        toolkit=Tool(None, "no nvcc on PATH"),
        torch_cuda=Tool(None, "a build for CPUs"),
        mpi=Tool(None, "no mpirun on PATH"),
        packages=TORCH,
        tensorrt_llm=None,
        toolchain=Toolchain("1.2.1", "1.2", "default", None, None, None),
        toolchain_reason=None,
        toolchain_fix=None,
        triton=Triton(None, None, False, None, "0.7.0", None, None),
        docker=Docker(None, None, "docker is not on PATH"),
        storage=Storage(100 * GIB, 8 * GIB, 8 * GIB),
        ports=tuple(PortState(name, port, None) for name, port in (("http", 8000), ("grpc", 8001), ("metrics", 8002))),
        container=None,
        visible_devices=None,
        machine={"system": "Linux", "cpu": "EPYC", "cpus": 8, "memory_bytes": 32 * GIB},
        python="3.12.3",
    )
    return replace(found, **changes)


def with_gpus(nvml: FakeNvml | None = None, **changes: Any) -> Examination:
    """The laptop's software on a machine with an H100, or with the GPUs of `nvml`."""
    module = nvml or FakeNvml(*h100())
    gpus, reason = detect_gpus(module)
    driver, driver_reason = detect_driver(module)
    return laptop(gpus=gpus, gpu_reason=reason, driver=driver, driver_reason=driver_reason, **changes)


def in_image(version: str = "1.2.1", month: str = "26.04", **changes: Any) -> Examination:
    """Inside a Triton image with TensorRT-LLM, on an H100."""
    defaults: dict[str, Any] = {
        "tensorrt_llm": version,
        "toolchain": Toolchain(version, version[:3], "installed", None, version, "/usr/local/bin/trtllm-build"),
        "triton": Triton("/opt/tritonserver/bin/tritonserver", "2.66.0", True, month, None, "not installed", "pip"),
        "container": "docker",
    }
    return with_gpus(**{**defaults, **changes})
