from __future__ import annotations

import pytest

from tests.doctor.found import GIB, TORCH, in_image, laptop, with_gpus
from tests.hardware.fake_nvml import Device, FakeNvml, h100
from trtspec.doctor.examination import Examination, PortState
from trtspec.doctor.machine import Docker, Storage, Tool, Triton
from trtspec.doctor.verdicts import RuntimeVerdict, Verdict, verdicts
from trtspec.hardware.detect import NO_PACKAGE
from trtspec.toolchain.detect import Toolchain

DOCKER = Docker("28.3.2", nvidia=True)


def runtime(found: Examination, name: str) -> RuntimeVerdict:
    return next(verdict for verdict in verdicts(found) if verdict.runtime == name)


def step(found: Examination, name: str, which: str) -> Verdict:
    return next(verdict for verdict in runtime(found, name).steps if verdict.step == which)


def engine(found: Examination, which: str) -> Verdict:
    return step(found, "tensorrt_llm", which)


def usable_steps(found: Examination) -> list[str]:
    return [verdict.step for verdict in runtime(found, "tensorrt_llm").steps if verdict.usable]


def test_a_laptop_can_use_torch_and_nothing_else() -> None:
    found = laptop()
    assert {verdict.runtime: verdict.usable for verdict in verdicts(found)} == {
        "torch": True,
        "tensorrt_llm": False,
        "llmapi": False,
    }
    for verdict in runtime(found, "tensorrt_llm").steps:
        assert any("no GPU: NVML" in reason for reason in verdict.reasons)
        assert verdict.fixes


def test_fixes_are_common_ones_first_then_by_way() -> None:
    assert [where for where, _ in runtime(laptop(), "tensorrt_llm").fixes] == ["next", "here", "in docker"]
    assert runtime(laptop(), "torch").fixes == ()
    assert {where for where, _ in runtime(with_gpus(docker=DOCKER), "tensorrt_llm").fixes} == {"here"}


def test_inside_the_image_engines_are_built_and_served_here() -> None:
    assert usable_steps(in_image()) == ["build here", "serve here"]
    assert runtime(in_image(), "tensorrt_llm").usable


def test_with_docker_both_happen_in_the_image() -> None:
    found = with_gpus(docker=DOCKER)
    assert usable_steps(found) == ["build in docker", "serve in docker"]
    assert runtime(found, "tensorrt_llm").usable
    assert "run inside nvcr.io/nvidia/tritonserver:26.04-trtllm-python-py3" in engine(found, "build here").fixes


def test_building_alone_makes_no_runtime_usable() -> None:
    found = in_image(triton=Triton(None, None, False, None, None, "not installed", None))
    assert usable_steps(found) == ["build here"]
    assert not runtime(found, "tensorrt_llm").usable


@pytest.mark.parametrize(
    ("docker", "words", "fix"),
    [
        (Docker(None, None, "docker is not on PATH"), "not on PATH", "install docker"),
        (Docker("28", nvidia=False, reason="the NVIDIA container toolkit is not installed"), "toolkit", "nvidia-ctk"),
    ],
)
def test_docker_that_is_not_enough(docker: Docker, words: str, fix: str) -> None:
    verdict = engine(with_gpus(docker=docker), "build in docker")
    assert any(words in reason for reason in verdict.reasons)
    assert any(fix in text for text in verdict.fixes)


def test_a_gpu_that_is_too_old() -> None:
    found = with_gpus(FakeNvml(Device("Tesla T4", 15360, (7, 5))), docker=DOCKER)
    assert usable_steps(found) == []
    assert "SM 75" in engine(found, "build in docker").reasons[0]


def test_one_old_gpu_beside_a_new_one_is_a_caution() -> None:
    found = with_gpus(FakeNvml(*h100(), Device("Tesla T4", 15360, (7, 5))), docker=DOCKER)
    verdict = engine(found, "build in docker")
    assert verdict.usable
    assert any("SM 75" in caution for caution in verdict.cautions)


def test_blackwell_gets_a_caution() -> None:
    found = with_gpus(FakeNvml(Device("NVIDIA B200", 183359, (10, 0))), docker=DOCKER)
    verdict = engine(found, "build in docker")
    assert verdict.usable
    assert any("#6158" in caution for caution in verdict.cautions)


def test_a_gpu_that_the_release_does_not_know() -> None:
    toolchain = Toolchain("1.0.0", "1.0", "spec", None, None, None)
    found = with_gpus(FakeNvml(Device("NVIDIA B300 SXM6 AC", 275040, (10, 3))), docker=DOCKER, toolchain=toolchain)
    assert "needs TensorRT-LLM 1.1" in engine(found, "serve in docker").reasons[0]


def test_an_old_driver_is_a_caution() -> None:
    found = with_gpus(FakeNvml(*h100(), driver="550.54.15", cuda=12040), docker=DOCKER)
    verdict = engine(found, "build in docker")
    assert verdict.usable
    assert any("CUDA 12.4, the image has 13.1" in caution for caution in verdict.cautions)
    assert "update NVIDIA's driver" in verdict.fixes


def test_an_installed_release_without_engines() -> None:
    found = in_image(tensorrt_llm="1.3.0rc29", toolchain=None, toolchain_reason="cannot build engines")
    assert any("1.3.0rc29 is installed; trtspec works with" in reason for reason in engine(found, "build here").reasons)


def test_another_release_installed_than_meant() -> None:
    meant = Toolchain("1.1.0", "1.1", "spec", None, "1.2.1", "/usr/local/bin/trtllm-build")
    found = in_image(toolchain=meant)
    assert any("1.2.1 is installed here" in reason for reason in engine(found, "build here").reasons)
    serve = engine(found, "serve here")
    assert any("this image (26.04) carries TensorRT-LLM 1.2.1, not 1.1.0" in reason for reason in serve.reasons)
    assert any("25.12-trtllm-python-py3" in fix for fix in serve.fixes)


def test_an_image_of_another_flavour_cannot_serve() -> None:
    found = in_image(triton=Triton("/opt/tritonserver/bin/tritonserver", "2.66.0", False, None, None, None, None))
    assert any("no backend tensorrtllm" in reason for reason in engine(found, "serve here").reasons)


def test_a_spec_that_contradicts_itself_is_a_reason() -> None:
    found = with_gpus(docker=DOCKER, toolchain=None, toolchain_reason="26.03 carries 1.2.0", toolchain_fix="use 26.02")
    verdict = engine(found, "build in docker")
    assert "26.03 carries 1.2.0" in verdict.reasons
    assert "use 26.02" in verdict.fixes


def test_a_port_in_use_stops_serving_not_building() -> None:
    found = in_image(ports=(PortState("http", 8000, "in use by nginx (pid 7)"),))
    assert engine(found, "build here").usable
    assert engine(found, "serve here").reasons == ("port 8000 (http): in use by nginx (pid 7)",)
    assert step(laptop(ports=found.ports), "torch", "serve").reasons == ("port 8000 (http): in use by nginx (pid 7)",)


def test_little_shared_memory_is_a_caution() -> None:
    verdict = engine(in_image(storage=Storage(100 * GIB, 64 << 20, 64 << 20)), "serve here")
    assert verdict.usable
    assert any("64 MiB free" in caution for caution in verdict.cautions)


def test_torch_without_its_packages() -> None:
    found = laptop(packages={**TORCH, "torch": None})
    assert not runtime(found, "torch").usable
    assert step(found, "torch", "build").fixes == ("pip install 'trtspec[local]'",)


def test_torch_without_the_embedded_server() -> None:
    found = laptop(
        triton=Triton(None, None, False, None, None, "the embedded Triton runs on Linux x86_64", "a container")
    )
    verdict = step(found, "torch", "serve")
    assert (verdict.reasons, verdict.fixes) == (("the embedded Triton runs on Linux x86_64",), ("a container",))
    assert step(found, "torch", "build").usable


def test_torch_for_cpus_beside_a_gpu_is_a_caution() -> None:
    assert any("CPUs" in caution for caution in step(with_gpus(), "torch", "serve").cautions)
    assert step(with_gpus(torch_cuda=Tool("13.0")), "torch", "serve").cautions == ()


def test_a_missing_package_is_what_to_install() -> None:
    assert "pip install nvidia-ml-py" in engine(laptop(gpu_reason=NO_PACKAGE), "build here").fixes
