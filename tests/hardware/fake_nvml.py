"""A stand-in for the module pynvml: devices as data, errors as NVML raises them."""

# ruff: noqa: N802 - the names are NVML's
from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

MIB = 1 << 20


class FakeNvmlError(Exception):
    """What the module calls NVMLError."""


@dataclass
class Device:
    name: str | bytes
    memory_mib: int | None
    capability: tuple[int, int]
    used_mib: int = 0
    mig: bool | None = None  # None: the GPU cannot do it
    slices: list[Device | None] = field(default_factory=list)


class FakeNvml:
    """Answers like NVML for `devices`; with `broken`, initialising fails with that text."""

    NVMLError: type[Exception] = FakeNvmlError

    def __init__(
        self, *devices: Device, broken: str | None = None, driver: str = "590.44.01", cuda: int = 13010
    ) -> None:
        self.devices = devices
        self.broken = broken
        self.driver = driver
        self.cuda = cuda
        self.open = 0

    def nvmlInit(self) -> None:
        if self.broken:
            raise FakeNvmlError(self.broken)
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        assert self.open
        return self.driver

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        assert self.open
        return self.cuda

    def nvmlDeviceGetCount(self) -> int:
        assert self.open
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index: int, /) -> Device:
        return self.devices[index]

    def nvmlDeviceGetName(self, handle: Device, /) -> str | bytes:
        return handle.name

    def nvmlDeviceGetMemoryInfo(self, handle: Device, /) -> Any:
        if handle.memory_mib is None:
            raise FakeNvmlError("Not Supported")
        return SimpleNamespace(total=handle.memory_mib * MIB, free=(handle.memory_mib - handle.used_mib) * MIB)

    def nvmlDeviceGetCudaComputeCapability(self, handle: Device, /) -> tuple[int, int]:
        return handle.capability

    def nvmlDeviceGetMigMode(self, handle: Device, /) -> list[int]:
        if handle.mig is None:
            raise FakeNvmlError("Not Supported")
        return [int(handle.mig), int(handle.mig)]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Device, /) -> int:
        return max(7, len(handle.slices))

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Device, index: int, /) -> Device:
        part = handle.slices[index] if index < len(handle.slices) else None
        if part is None:
            raise FakeNvmlError("Not Found")
        return part


def h100(count: int = 1, **changes: Any) -> tuple[Device, ...]:
    """H100s as the driver names them."""
    return tuple(Device("NVIDIA H100 80GB HBM3", 81559, (9, 0), mig=False, **changes) for _ in range(count))
