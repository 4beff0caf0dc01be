"""The GPU models: memory, bandwidth, throughput, and where each number is from.

`memory_bytes` is what nvidia-smi reports where `memory_from` says so (ECC as it is set when the GPU is delivered), else
the datasheet's gigabytes. Throughput is dense: where a datasheet gives only figures with sparsity, half of them. For
GeForce cards, which halve tensor throughput when sums are kept in float32, as LLM kernels keep them, it is that half
(GA102, AD102 and GB202 white papers). Nothing here was measured by us.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

__all__ = ["GPUS", "Gpu"]

_MIB = 1 << 20


@dataclass(frozen=True)
class Gpu:
    """One GPU model.

    `bandwidth` is its memory's (bytes/s), `sm` the compute capability (89 is 8.9), `flops` dense operations per second
    by type (float16, bfloat16, fp8, int8, nvfp4, tf32, float32; a type is absent where there is no tensor core for it),
    `interconnect` bytes per second to other GPUs, both directions together as datasheets count (NVLink, else PCIe).
    """

    name: str
    memory_bytes: int
    bandwidth: float
    sm: int
    flops: Mapping[str, float] = field(hash=False)
    interconnect: float
    source: str
    memory_from: str = "nvidia-smi"
    aliases: tuple[str, ...] = ()


def _tera(**values: float) -> Mapping[str, float]:
    return MappingProxyType({name: value * 1e12 for name, value in values.items()})


def _rates(half: float, *, int8: float, tf32: float, float32: float, **more: float) -> Mapping[str, float]:
    """TFLOPS by type; float16 and bfloat16 run at one speed on everything since Ampere."""
    return _tera(float16=half, bfloat16=half, int8=int8, tf32=tf32, float32=float32, **more)


_A100 = _rates(312, int8=624, tf32=156, float32=19.5)
_H100_SXM = _rates(989.4, fp8=1978.9, int8=1978.9, tf32=494.7, float32=67)
_H100_NVL = _rates(835.5, fp8=1671, int8=1671, tf32=417.5, float32=60)
_A100_SHEET = "NVIDIA A100 datasheet"
_H100_SHEET = "NVIDIA H100 datasheet (figures with sparsity, halved)"
_PCIE3, _PCIE4, _PCIE5 = 32e9, 64e9, 128e9

# of models with several forms the first row is what the bare name means
GPUS: tuple[Gpu, ...] = (
    Gpu(
        "T4", 15360 * _MIB, 320e9, 75, _tera(float16=65, int8=130, float32=8.1), _PCIE3, "NVIDIA T4 datasheet",
    ),
    Gpu(
        "V100-32GB-SXM", 32768 * _MIB, 900e9, 70, _tera(float16=125, float32=15.7), 300e9, "NVIDIA V100 datasheet",
    ),
    Gpu(
        "V100-16GB-SXM", 16384 * _MIB, 900e9, 70, _tera(float16=125, float32=15.7), 300e9, "NVIDIA V100 datasheet",
    ),
    Gpu(
        "A10", 23028 * _MIB, 600e9, 86, _rates(125, int8=250, tf32=62.5, float32=31.2), _PCIE4,
        "NVIDIA A10 datasheet",
    ),
    Gpu(
        "A10G", 23028 * _MIB, 600e9, 86, _rates(70, int8=140, tf32=35, float32=31.5), _PCIE4,
        "NVIDIA A10G datasheet (AWS G5)",
    ),
    Gpu(
        "A30", 24576 * _MIB, 933e9, 80, _rates(165, int8=330, tf32=82, float32=10.3), 200e9, "NVIDIA A30 datasheet",
    ),
    Gpu(
        "A40", 46068 * _MIB, 696e9, 86, _rates(149.7, int8=299.3, tf32=74.8, float32=37.4), 112.5e9,
        "NVIDIA A40 datasheet",
    ),
    Gpu(
        "RTX-A6000", 49140 * _MIB, 768e9, 86, _rates(154.8, int8=309.7, tf32=77.4, float32=38.7), 112.5e9,
        "NVIDIA RTX A6000 datasheet (figures with sparsity, halved)", aliases=("A6000",),
    ),
    Gpu("A100-80GB-SXM", 81920 * _MIB, 2039e9, 80, _A100, 600e9, _A100_SHEET),
    Gpu("A100-80GB-PCIe", 81920 * _MIB, 1935e9, 80, _A100, _PCIE4, f"{_A100_SHEET}; NVLink bridges: 600 GB/s"),
    Gpu("A100-40GB-SXM", 40960 * _MIB, 1555e9, 80, _A100, 600e9, _A100_SHEET),
    Gpu("A100-40GB-PCIe", 40960 * _MIB, 1555e9, 80, _A100, _PCIE4, f"{_A100_SHEET}; NVLink bridges: 600 GB/s"),
    Gpu(
        "L4", 23034 * _MIB, 300e9, 89, _rates(121, fp8=242.5, int8=242.5, tf32=60, float32=30.3), _PCIE4,
        "NVIDIA L4 datasheet (figures with sparsity, halved)",
    ),
    Gpu(
        "L20", 46068 * _MIB, 864e9, 89, _rates(119.5, fp8=239, int8=239, tf32=59.8, float32=59.8), _PCIE4,
        "NVIDIA L20 product brief",
    ),
    Gpu(
        "L40", 46068 * _MIB, 864e9, 89, _rates(181, fp8=362, int8=362, tf32=90.5, float32=90.5), _PCIE4,
        "NVIDIA L40 datasheet",
    ),
    Gpu(
        "L40S", 46068 * _MIB, 864e9, 89, _rates(362, fp8=733, int8=733, tf32=183, float32=91.6), _PCIE4,
        "NVIDIA L40S datasheet",
    ),
    Gpu(
        "RTX-6000-Ada", 49140 * _MIB, 960e9, 89, _rates(364.2, fp8=728.5, int8=728.5, tf32=182.1, float32=91.1), _PCIE4,
        "NVIDIA RTX 6000 Ada datasheet (figures with sparsity, halved)", aliases=("RTX 6000 Ada Generation",),
    ),
    Gpu("H100-80GB-SXM", 81559 * _MIB, 3350e9, 90, _H100_SXM, 900e9, _H100_SHEET),
    Gpu(
        "H100-80GB-PCIe", 81559 * _MIB, 2039e9, 90, _rates(756, fp8=1513, int8=1513, tf32=378, float32=51), _PCIE5,
        "NVIDIA H100 PCIe product brief; NVLink bridges: 600 GB/s",
    ),
    Gpu("H100-94GB-NVL", 95830 * _MIB, 3900e9, 90, _H100_NVL, 600e9, "NVIDIA H100 NVL product brief"),
    Gpu("H200-141GB-SXM", 143771 * _MIB, 4800e9, 90, _H100_SXM, 900e9, "NVIDIA H200 datasheet (halved)"),
    Gpu(
        "H200-141GB-NVL", 143771 * _MIB, 4800e9, 90, _H100_NVL, 900e9, "NVIDIA H200 datasheet (halved)",
        memory_from="nvidia-smi of the SXM form",
    ),
    Gpu(
        "GH200-96GB", 97871 * _MIB, 4000e9, 90, _H100_SXM, 900e9, "NVIDIA GH200 datasheet (halved)",
        aliases=("GH200 480GB",),
    ),
    Gpu(
        "H20-96GB", 97871 * _MIB, 4000e9, 90, _rates(148, fp8=296, int8=296, tf32=74, float32=44), 900e9,
        "NVIDIA H20 product brief",
    ),
    Gpu(
        "B200-180GB-SXM", 183359 * _MIB, 8000e9, 100,
        _rates(2250, fp8=4500, int8=4500, nvfp4=9000, tf32=1125, float32=75), 1800e9,
        "NVIDIA DGX B200 datasheet, an eighth (figures with sparsity, halved)",
    ),
    Gpu(
        "GB200-186GB", 189471 * _MIB, 8000e9, 100,
        _rates(2500, fp8=5000, int8=5000, nvfp4=10000, tf32=1250, float32=80), 1800e9,
        "NVIDIA GB200 NVL72 datasheet, a 72nd (figures with sparsity, halved)",
    ),
    Gpu(
        "B300-288GB-SXM", 275040 * _MIB, 8000e9, 103,
        _tera(float16=2250, bfloat16=2250, fp8=4500, nvfp4=13500, tf32=1125, float32=75), 1800e9,
        "NVIDIA DGX B300 datasheet, an eighth",
    ),
    Gpu(
        "GB300-279GB", 284208 * _MIB, 8000e9, 103,
        _tera(float16=2500, bfloat16=2500, fp8=5000, nvfp4=15000, tf32=1250, float32=80), 1800e9,
        "NVIDIA GB300 NVL72 datasheet, a 72nd",
    ),
    Gpu(
        "RTX-3090", 24576 * _MIB, 936e9, 86, _rates(71, int8=284, tf32=35.6, float32=35.6), 112.5e9,
        "NVIDIA GA102 white paper",
    ),
    Gpu(
        "RTX-4090", 24564 * _MIB, 1008e9, 89, _rates(165.2, fp8=330.3, int8=660.6, tf32=82.6, float32=82.6), _PCIE4,
        "NVIDIA Ada white paper (AD102)",
    ),
    Gpu(
        "RTX-5090", 32607 * _MIB, 1792e9, 120,
        _rates(209.5, fp8=419, int8=838, nvfp4=1676, tf32=104.8, float32=104.8), _PCIE5,
        "NVIDIA RTX Blackwell white paper (GB202)",
    ),
    Gpu(
        "RTX-PRO-6000", 97887 * _MIB, 1792e9, 120,
        _rates(503.8, fp8=1007.6, int8=1007.6, nvfp4=2015, tf32=251.9, float32=126), _PCIE5,
        "NVIDIA RTX PRO 6000 Blackwell datasheet (figures with sparsity, halved)",
        aliases=("RTX PRO 6000 Blackwell Workstation Edition", "RTX 6000 Pro"),
    ),
    Gpu(
        "RTX-PRO-6000-Server", 97887 * _MIB, 1597e9, 120,
        _rates(480, fp8=960, int8=960, nvfp4=1920, tf32=240, float32=120), _PCIE5,
        "NVIDIA RTX PRO 6000 Blackwell Server Edition datasheet (figures with sparsity, halved)",
        aliases=("RTX PRO 6000 Blackwell Server Edition",),
    ),
    Gpu(
        "RTX-PRO-6000-Max-Q", 97887 * _MIB, 1792e9, 120,
        _rates(439, fp8=878, int8=878, nvfp4=1755, tf32=219, float32=110), _PCIE5,
        "NVIDIA RTX PRO 6000 Blackwell Max-Q datasheet (figures with sparsity, halved)",
    ),
)  # fmt: skip
