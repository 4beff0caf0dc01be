"""The GPUs in this machine, through NVML (package nvidia-ml-py)."""

# ruff: noqa: N802, D102 - the protocol's names are NVML's, and NVML documents them
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from trtspec.hardware.catalogue import Gpu, known_gpu

__all__ = ["NO_PACKAGE", "DetectedGpu", "Driver", "Nvml", "detect_driver", "detect_gpus"]

NO_PACKAGE = "the package nvidia-ml-py is not installed"


class Nvml(Protocol):
    """The part of the module `pynvml` that is used here; its errors are `NVMLError`."""

    NVMLError: type[Exception]

    def nvmlInit(self) -> Any: ...
    def nvmlShutdown(self) -> Any: ...
    def nvmlSystemGetDriverVersion(self) -> str | bytes: ...
    def nvmlSystemGetCudaDriverVersion(self) -> int: ...
    def nvmlDeviceGetCount(self) -> int: ...
    def nvmlDeviceGetHandleByIndex(self, index: int, /) -> Any: ...
    def nvmlDeviceGetName(self, handle: Any, /) -> str | bytes: ...
    def nvmlDeviceGetMemoryInfo(self, handle: Any, /) -> Any: ...
    def nvmlDeviceGetCudaComputeCapability(self, handle: Any, /) -> Any: ...
    def nvmlDeviceGetMigMode(self, handle: Any, /) -> Any: ...
    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Any, /) -> int: ...
    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: int, /) -> Any: ...


@dataclass(frozen=True)
class DetectedGpu:
    """One GPU, or one slice of a GPU in MIG mode (`index` is then the whole GPU's).

    `sm` is the compute capability (89 is 8.9); sizes in bytes, None where the driver does not tell (GB10); `known` is
    the catalogue's row, None for models not in it and for slices, which have a share of a GPU's speed.
    """

    index: int
    name: str
    sm: int
    memory_bytes: int | None
    free_bytes: int | None
    driver: str
    mig: bool
    known: Gpu | None


@dataclass(frozen=True)
class Driver:
    """Version of NVIDIA's driver and the newest CUDA it runs (`13.1`); None where not known."""

    version: str | None
    cuda: str | None


def detect_gpus(nvml: Nvml | None = None) -> tuple[tuple[DetectedGpu, ...], str | None]:
    """(GPUs, None), or ((), why there are none). `nvml` stands in for the module in tests."""
    module, reason = (nvml, None) if nvml is not None else _load()
    if module is None:
        return (), reason
    try:
        with _session(module):
            found = tuple(gpu for index in range(module.nvmlDeviceGetCount()) for gpu in _devices(module, index))
    except module.NVMLError as error:
        return (), f"NVML: {error}"
    return found, None if found else "NVIDIA's driver is there, but no GPU is visible to it"


def detect_driver(nvml: Nvml | None = None) -> tuple[Driver, str | None]:
    """(driver, None), or (a driver of which nothing is known, the reason)."""
    module, reason = (nvml, None) if nvml is not None else _load()
    if module is None:
        return Driver(None, None), reason
    try:
        with _session(module):
            cuda = module.nvmlSystemGetCudaDriverVersion()
            return Driver(_text(module.nvmlSystemGetDriverVersion()), f"{cuda // 1000}.{cuda % 1000 // 10}"), None
    except module.NVMLError as error:
        return Driver(None, None), f"NVML: {error}"


def _load() -> tuple[Nvml | None, str | None]:
    try:
        import pynvml
    except ImportError:
        return None, NO_PACKAGE
    return pynvml, None


@contextmanager
def _session(nvml: Nvml) -> Iterator[None]:
    nvml.nvmlInit()
    try:
        yield
    finally:
        nvml.nvmlShutdown()


def _devices(nvml: Nvml, index: int) -> list[DetectedGpu]:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    if not _mig_enabled(nvml, handle):
        return [_device(nvml, index, handle, handle, mig=False)]
    slices = _mig_slices(nvml, handle)
    return [_device(nvml, index, handle, part, mig=True) for part in slices or [handle]]


def _device(nvml: Nvml, index: int, whole: Any, part: Any, *, mig: bool) -> DetectedGpu:
    """`part` is the slice whose memory counts, or the GPU itself."""
    name = _text(nvml.nvmlDeviceGetName(part))
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(whole)
    total, free = _memory(nvml, part)
    return DetectedGpu(
        index=index,
        name=name,
        sm=int(major) * 10 + int(minor),
        memory_bytes=total,
        free_bytes=free,
        driver=_text(nvml.nvmlSystemGetDriverVersion()),
        mig=mig,
        known=None if mig else known_gpu(name, total),
    )


def _memory(nvml: Nvml, handle: Any) -> tuple[int | None, int | None]:
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    except nvml.NVMLError:  # unified memory
        return None, None
    return int(memory.total), int(memory.free)


def _mig_enabled(nvml: Nvml, handle: Any) -> bool:
    try:
        return bool(nvml.nvmlDeviceGetMigMode(handle)[0])
    except nvml.NVMLError:  # not supported before A100
        return False


def _mig_slices(nvml: Nvml, handle: Any) -> list[Any]:
    numbers = range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle))
    return [part for number in numbers if (part := _mig_slice(nvml, handle, number)) is not None]


def _mig_slice(nvml: Nvml, handle: Any, number: int) -> Any | None:
    try:
        return nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
    except nvml.NVMLError:  # a number not in use
        return None


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
