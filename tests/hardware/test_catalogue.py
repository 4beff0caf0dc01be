from __future__ import annotations

import pytest

from trtspec.errors import UsageError
from trtspec.hardware.catalogue import GPUS, Gpu, find_gpu, known_gpu, like_gpu

MIB, GIB = 1 << 20, 1 << 30

# what the driver calls it, or people do → the row
NAMES = {
    "NVIDIA H100 80GB HBM3": "H100-80GB-SXM",
    "NVIDIA H100 PCIe": "H100-80GB-PCIe",
    "NVIDIA H100 NVL": "H100-94GB-NVL",
    "H100-80GB-SXM5": "H100-80GB-SXM",
    "h100": "H100-80GB-SXM",
    "h100 pcie": "H100-80GB-PCIe",
    "h100_nvl": "H100-94GB-NVL",
    "NVIDIA H200": "H200-141GB-SXM",
    "H200 NVL": "H200-141GB-NVL",
    "NVIDIA GH200 480GB": "GH200-96GB",
    "NVIDIA H20": "H20-96GB",
    "NVIDIA B200": "B200-180GB-SXM",
    "NVIDIA GB200": "GB200-186GB",
    "NVIDIA B300 SXM6 AC": "B300-288GB-SXM",
    "NVIDIA GB300": "GB300-279GB",
    "NVIDIA A100-SXM4-80GB": "A100-80GB-SXM",
    "NVIDIA A100-SXM4-40GB": "A100-40GB-SXM",
    "NVIDIA A100 80GB PCIe": "A100-80GB-PCIe",
    "NVIDIA A100-PCIE-40GB": "A100-40GB-PCIe",
    "a100": "A100-80GB-SXM",
    "a100 40": "A100-40GB-SXM",
    "A100-40g": "A100-40GB-SXM",
    "A100 40 GiB": "A100-40GB-SXM",
    "NVIDIA A10": "A10",
    "NVIDIA A10G": "A10G",
    "NVIDIA A30": "A30",
    "NVIDIA A40": "A40",
    "NVIDIA RTX A6000": "RTX-A6000",
    "NVIDIA L4": "L4",
    "NVIDIA L40": "L40",
    "NVIDIA L40S": "L40S",
    "NVIDIA GeForce RTX 3090": "RTX-3090",
    "NVIDIA GeForce RTX 4090": "RTX-4090",
    "rtx4090": "RTX-4090",
    "4090": "RTX-4090",
    "RTX-5090": "RTX-5090",
    "NVIDIA RTX 6000 Ada Generation": "RTX-6000-Ada",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "RTX-PRO-6000",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "RTX-PRO-6000-Server",
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": "RTX-PRO-6000-Max-Q",
    "Tesla T4": "T4",
    "Tesla V100-SXM2-32GB": "V100-32GB-SXM",
}

# NVIDIA's datasheets, dense: name → (GB/s, SM, TFLOPS bfloat16 or float16, TFLOPS fp8)
SHEETS = {
    "A100-80GB-SXM": (2039, 80, 312, None),
    "A10": (600, 86, 125, None),
    "L4": (300, 89, 121, 242.5),
    "L40S": (864, 89, 362, 733),
    "H100-80GB-SXM": (3350, 90, 989.4, 1978.9),
    "H200-141GB-SXM": (4800, 90, 989.4, 1978.9),
    "B200-180GB-SXM": (8000, 100, 2250, 4500),
    "RTX-4090": (1008, 89, 165.2, 330.3),
    "RTX-5090": (1792, 120, 209.5, 419),
    "T4": (320, 75, 65, None),
}


@pytest.mark.parametrize("name", NAMES)
def test_every_usual_name(name: str) -> None:
    assert find_gpu(name).name == NAMES[name]


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_a_row_is_found_by_its_own_name_and_is_plausible(gpu: Gpu) -> None:
    assert find_gpu(gpu.name) is gpu
    assert find_gpu(gpu.name.lower().replace("-", " ")) is gpu
    assert hash(gpu) is not None
    assert 15 * GIB <= gpu.memory_bytes <= 290 * GIB
    assert gpu.source
    rates = gpu.flops
    assert rates["float16"] == rates.get("bfloat16", rates["float16"])
    assert gpu.sm >= 80 or "bfloat16" not in rates
    assert ("fp8" in rates) == (gpu.sm >= 89)
    assert ("nvfp4" in rates) == (gpu.sm >= 100)
    if "fp8" in rates:
        assert rates["fp8"] == pytest.approx(2 * rates["float16"], rel=0.02)
    if "nvfp4" in rates:
        assert 1.9 * rates["fp8"] < rates["nvfp4"] <= 4.01 * rates["fp8"]  # 4: GeForce halves FP8, not FP4


@pytest.mark.parametrize("name", SHEETS)
def test_numbers_of_the_datasheets(name: str) -> None:
    gpu = find_gpu(name)
    gigabytes, sm, half, fp8 = SHEETS[name]
    assert gpu.bandwidth == pytest.approx(gigabytes * 1e9)
    assert gpu.sm == sm
    assert gpu.flops["float16"] == pytest.approx(half * 1e12)
    assert gpu.flops.get("fp8") == (None if fp8 is None else pytest.approx(fp8 * 1e12))


@pytest.mark.parametrize(
    ("name", "mib"),
    [("H100", 81559), ("A100", 81920), ("L4", 23034), ("RTX 4090", 24564), ("H200", 143771), ("T4", 15360)],
)
def test_memory_is_what_nvidia_smi_reports(name: str, mib: int) -> None:
    assert find_gpu(name).memory_bytes == mib * MIB


def test_memory_given_picks_the_form_and_replaces_the_size() -> None:
    gpu = find_gpu("A100", memory_gib=39.5)
    assert gpu.name == "A100-40GB-SXM"
    assert gpu.memory_bytes == int(39.5 * GIB)
    assert gpu.memory_from == "given"
    assert find_gpu("H100", memory_gib=94).name == "H100-94GB-NVL"


def test_a_slice_of_a_gpu() -> None:
    assert find_gpu("H100-80GB-SXM", memory_gib=20).memory_bytes == 20 * GIB


@pytest.mark.parametrize(
    ("name", "near"), [("H10", "A10"), ("H1000", "H100-80GB-SXM"), ("RTX 4080", "RTX-4090"), ("L40SX", "L40S")]
)
def test_an_unknown_name_gets_the_nearest(name: str, near: str) -> None:
    with pytest.raises(UsageError, match=name) as caught:
        find_gpu(name)
    assert near in caught.value.message
    assert caught.value.where == "hardware.gpu"


@pytest.mark.parametrize("name", ["", "80gb", "sxm", "rtx", "nvidia", "gpu", "MI300X", "CPU"])
def test_what_names_no_model_is_unknown(name: str) -> None:
    assert known_gpu(name) is None
    with pytest.raises(UsageError):
        find_gpu(name)


def test_a_device_s_memory_decides_between_forms_of_one_name() -> None:
    assert known_gpu("NVIDIA A100", 40960 * MIB) == find_gpu("A100-40GB-SXM")


def test_a_gpu_like_an_unknown_one() -> None:
    like = like_gpu("NVIDIA Someday", 89)
    assert like is not None
    assert (like.name, like.sm) == ("NVIDIA Someday", 89)
    assert like_gpu("NVIDIA Someday", 999) is None
