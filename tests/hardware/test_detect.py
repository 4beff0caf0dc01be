from __future__ import annotations

import sys

import pytest

from tests.hardware.fake_nvml import MIB, Device, FakeNvml, h100
from trtspec.hardware.detect import NO_PACKAGE, Driver, detect_driver, detect_gpus


def test_gpus_with_memory_driver_and_model() -> None:
    nvml = FakeNvml(*h100(2, used_mib=1000))
    gpus, reason = detect_gpus(nvml)
    assert reason is None
    assert [(gpu.index, gpu.name, gpu.sm, gpu.mig) for gpu in gpus] == [
        (0, "NVIDIA H100 80GB HBM3", 90, False),
        (1, "NVIDIA H100 80GB HBM3", 90, False),
    ]
    assert gpus[0].memory_bytes == 81559 * MIB
    assert gpus[0].free_bytes == 80559 * MIB
    assert gpus[0].driver == "590.44.01"
    assert gpus[0].known is not None
    assert gpus[0].known.name == "H100-80GB-SXM"
    assert nvml.open == 0  # closed again


@pytest.mark.parametrize(
    ("name", "memory_mib", "capability", "sm", "known"),
    [
        ("NVIDIA GeForce RTX 4090", 24564, (8, 9), 89, "RTX-4090"),
        (b"NVIDIA L4", 23034, (8, 9), 89, "L4"),
        ("NVIDIA A100-SXM4-40GB", 40960, (8, 0), 80, "A100-40GB-SXM"),
        ("NVIDIA B200", 183359, (10, 0), 100, "B200-180GB-SXM"),
        ("NVIDIA GeForce RTX 5090", 32607, (12, 0), 120, "RTX-5090"),
        ("Tesla V100-SXM2-16GB", 16384, (7, 0), 70, "V100-16GB-SXM"),
        ("NVIDIA GeForce GTX 1080", 8192, (6, 1), 61, None),
    ],
)
def test_other_models(
    name: str | bytes, memory_mib: int, capability: tuple[int, int], sm: int, known: str | None
) -> None:
    ((gpu,), _) = detect_gpus(FakeNvml(Device(name, memory_mib, capability)))
    assert gpu.sm == sm
    assert (gpu.known.name if gpu.known else None) == known


def test_a_gpu_whose_memory_the_driver_does_not_tell() -> None:
    ((gpu,), _) = detect_gpus(FakeNvml(Device("NVIDIA GB10", None, (12, 1))))
    assert (gpu.memory_bytes, gpu.free_bytes) == (None, None)


def test_slices_are_listed_in_place_of_a_gpu_in_mig_mode() -> None:
    parts = [Device("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 19968, (8, 0)), None, Device("… MIG 1g.5gb", 4864, (8, 0))]
    whole = Device("NVIDIA A100-SXM4-40GB", 40960, (8, 0), mig=True, slices=parts)
    gpus, _ = detect_gpus(FakeNvml(whole, *h100()))
    assert [(gpu.index, gpu.mig, gpu.memory_bytes) for gpu in gpus] == [
        (0, True, 19968 * MIB),
        (0, True, 4864 * MIB),
        (1, False, 81559 * MIB),
    ]
    assert gpus[0].known is None  # a slice is slower than the GPU


def test_mig_mode_without_slices_lists_the_gpu() -> None:
    ((gpu,), _) = detect_gpus(FakeNvml(Device("NVIDIA A100-SXM4-40GB", 40960, (8, 0), mig=True)))
    assert gpu.mig
    assert gpu.known is None


@pytest.mark.parametrize(
    "text", ["Driver Not Loaded", "NVML Shared Library Not Found", "Driver/library version mismatch"]
)
def test_a_driver_that_does_not_work_is_a_reason(text: str) -> None:
    assert detect_gpus(FakeNvml(broken=text)) == ((), f"NVML: {text}")
    assert detect_driver(FakeNvml(broken=text)) == (Driver(None, None), f"NVML: {text}")


def test_a_driver_without_gpus_is_a_reason() -> None:
    gpus, reason = detect_gpus(FakeNvml())
    assert gpus == ()
    assert "no GPU is visible" in (reason or "")


def test_a_missing_package_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert detect_gpus() == ((), NO_PACKAGE)
    assert detect_driver() == (Driver(None, None), NO_PACKAGE)


@pytest.mark.parametrize(("number", "text"), [(13010, "13.1"), (12040, "12.4"), (12000, "12.0")])
def test_the_driver_s_cuda(number: int, text: str) -> None:
    assert detect_driver(FakeNvml(cuda=number)) == (Driver("590.44.01", text), None)


def test_this_machine_answers_with_gpus_or_a_reason() -> None:
    gpus, reason = detect_gpus()
    assert bool(gpus) == (reason is None)
