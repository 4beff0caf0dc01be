"""What can be used here, per runtime and step, with the reasons against it and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trtspec.doctor.examination import Examination
from trtspec.hardware.detect import NO_PACKAGE
from trtspec.toolchain.detect import Toolchain, installed_mismatch
from trtspec.toolchain.releases import (
    REFERENCE,
    SUPPORTED,
    find_release,
    images_for,
    is_supported,
    release_of_image,
    same_release,
    sm_caution,
    supports_sm,
    triton_image,
)
from trtspec.units import bytes_text

__all__ = ["ANYWHERE", "RuntimeVerdict", "Verdict", "verdicts"]

# command → what it does without GPU, TensorRT-LLM or a server
ANYWHERE: dict[str, str] = {
    "check": "the pair, from its metadata",
    "plan": "memory, placement, speed-up and cost",
    "build --dry-run": "the exact commands of an engine build",
    "repo": "the model repository of engines that are there",
    "loadtest --arm-url": "measuring a server that runs elsewhere",
    "report": "rendering a run",
}

_MIB, _GIB = 1 << 20, 1 << 30
_GPU_FIX = "run it on a Linux machine with an NVIDIA GPU of compute capability 8.0 or newer"
_DOCKER_FIX = "install docker, and let this user talk to it (group docker)"
_TOOLKIT_FIX = "install the NVIDIA container toolkit: sudo nvidia-ctk runtime configure --runtime=docker"


@dataclass(frozen=True)
class Verdict:
    """One step of one runtime: `reasons` against it (none: it is usable), `cautions`, and what to do about both."""

    step: str
    reasons: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        """True when nothing that the doctor can see is against it."""
        return not self.reasons


@dataclass(frozen=True)
class RuntimeVerdict:
    """A runtime's steps; it is usable when engines can be built and served, in whichever way."""

    runtime: str
    steps: tuple[Verdict, ...]

    @property
    def fixes(self) -> tuple[tuple[str, str], ...]:
        """(where, fix): what every step needs as `next`, then what is left of a way, `here` or `in docker`."""
        common = [fix for fix in self.steps[0].fixes if all(fix in step.fixes for step in self.steps)]
        shown = [("next", fix) for fix in common]
        for step in self.steps:
            where = next((way for way in ("here", "in docker") if step.step.endswith(way)), "next")
            shown += [(where, fix) for fix in step.fixes if fix not in common]
        return tuple(dict.fromkeys(shown))

    @property
    def usable(self) -> bool:
        """True when some way to build and some way to serve are usable."""
        ways = {kind: [step.usable for step in self.steps if step.step.startswith(kind)] for kind in ("build", "serve")}
        return all(any(way) for way in ways.values())


def verdicts(found: Examination) -> tuple[RuntimeVerdict, ...]:
    """The runtimes in the order in which they are shown: torch, tensorrt_llm, llmapi."""
    unknown = (
        Verdict("build", ("not in this version of trtspec",)),
        Verdict("serve", ("not in this version of trtspec",)),
    )
    return (
        RuntimeVerdict("torch", (_torch_build(found), _torch_serve(found))),
        RuntimeVerdict(
            "tensorrt_llm",
            (
                _engine_build(found),
                _verdict("build in docker", _docker_points(found)),
                _engine_serve(found),
                _verdict("serve in docker", [*_docker_points(found), *_port_points(found)]),
            ),
        ),
        RuntimeVerdict("llmapi", unknown),
    )


@dataclass(frozen=True)
class _Point:
    """One thing that was looked at: a reason against the step, or a caution, with its fix."""

    text: str
    fix: str | None = None
    caution: bool = False


def _verdict(step: str, points: Sequence[_Point]) -> Verdict:
    fixes = dict.fromkeys(point.fix for point in points if point.fix)
    return Verdict(
        step,
        tuple(point.text for point in points if not point.caution),
        tuple(point.text for point in points if point.caution),
        tuple(fixes),
    )


def _torch_build(found: Examination) -> Verdict:
    missing = [name for name in ("torch", "transformers") if found.packages.get(name) is None]
    points = [_Point(f"{' and '.join(missing)} not installed", "pip install 'trtspec[local]'")] if missing else []
    return _verdict("build", points)


def _torch_serve(found: Examination) -> Verdict:
    points = []
    if found.triton.embedded is None:
        reason = found.triton.embedded_reason or "the embedded Triton server is not installed"
        points.append(_Point(reason, found.triton.embedded_fix))
    if found.packages.get("torch") is None:
        points.append(_Point("torch not installed", "pip install 'trtspec[local]'"))
    elif found.gpus and found.torch_cuda.version is None:
        points.append(_Point("torch is a build for CPUs: the GPU will not be used", caution=True))
    return _verdict("serve", [*points, *_port_points(found), *_shm_points(found, 64 * _MIB)])


def _engine_build(found: Examination) -> Verdict:
    return _verdict("build here", [*_gpu_points(found), *_installed_points(found)])


def _engine_serve(found: Examination) -> Verdict:
    points = [*_gpu_points(found)]
    if found.triton.path is None:
        points.append(_Point("tritonserver is not on PATH", f"run inside {_image(found.toolchain)}"))
    elif not found.triton.tensorrtllm_backend:
        fix = f"run inside {_image(found.toolchain)}"
        points.append(_Point("this tritonserver has no backend tensorrtllm", fix))
    points += _image_points(found)
    return _verdict("serve here", [*points, *_port_points(found), *_shm_points(found, _GIB)])


def _docker_points(found: Examination) -> list[_Point]:
    points = [*_gpu_points(found)]
    if found.docker.server is None:
        points.append(_Point(found.docker.reason or "docker does not work", _DOCKER_FIX))
    elif not found.docker.nvidia:
        points.append(_Point(found.docker.reason or "docker does not give GPUs to containers", _TOOLKIT_FIX))
    if found.toolchain is None and found.toolchain_reason:
        points.append(_Point(found.toolchain_reason, found.toolchain_fix))
    return [*points, *_driver_points(found)]


def _gpu_points(found: Examination) -> list[_Point]:
    if not found.gpus:
        unasked = found.gpu_reason == NO_PACKAGE
        return [_Point(f"no GPU: {found.gpu_reason or 'none'}", "pip install nvidia-ml-py" if unasked else _GPU_FIX)]
    version = found.toolchain.version if found.toolchain else REFERENCE
    against = {gpu.sm: reason for gpu in found.gpus if (reason := supports_sm(version, gpu.sm)) is not None}
    models = {gpu.sm for gpu in found.gpus}
    cautions = [_Point(text, caution=True) for sm in sorted(models) if (text := sm_caution(version, sm)) is not None]
    some_will_do = len(against) < len(models)
    return [*(_Point(reason, _GPU_FIX, caution=some_will_do) for reason in against.values()), *cautions]


def _installed_points(found: Examination) -> list[_Point]:
    installed, toolchain = found.tensorrt_llm, found.toolchain
    fix = f"run inside {_image(toolchain)}"
    if installed is None:
        return [_Point("TensorRT-LLM is not installed here", fix)]
    if not is_supported(installed):
        return [_Point(f"TensorRT-LLM {installed} is installed; trtspec works with {SUPPORTED}", fix)]
    points = []
    if toolchain is None:
        points.append(_Point(found.toolchain_reason or "no TensorRT-LLM is decided on", found.toolchain_fix))
    elif (mismatch := installed_mismatch(toolchain)) is not None:
        points.append(_Point(mismatch, fix))
    if toolchain is None or toolchain.trtllm_build is None:
        points.append(_Point("trtllm-build is not on PATH", fix))
    return points


def _image_points(found: Examination) -> list[_Point]:
    """The image that this runs in against the TensorRT-LLM that is meant."""
    inside = release_of_image(found.triton.image_month) if found.triton.image_month else None
    toolchain = found.toolchain
    if inside is None or toolchain is None or same_release(toolchain.version, inside.version):
        return []
    text = f"this image ({found.triton.image_month}) carries TensorRT-LLM {inside.version}, not {toolchain.version}"
    return [_Point(text, f"run inside {_image(toolchain)}")]


def _driver_points(found: Examination) -> list[_Point]:
    """A driver older than the image's CUDA: a caution, as data-center GPUs have forward compatibility."""
    if found.driver.cuda is None or found.toolchain is None:
        return []
    needed = find_release(found.toolchain.version).cuda
    if needed is None or int(found.driver.cuda.split(".")[0]) >= int(needed.split(".")[0]):
        return []
    text = (
        f"the driver runs CUDA {found.driver.cuda}, the image has {needed}: data-center GPUs run it through the "
        "image's compatibility libraries, others need a newer driver"
    )
    return [_Point(text, "update NVIDIA's driver", caution=True)]


def _port_points(found: Examination) -> list[_Point]:
    return [
        _Point(
            f"port {state.port} ({state.protocol}): {state.problem}", f"stop it, or set serving.{state.protocol}_port"
        )
        for state in found.ports
        if state.problem
    ]


def _shm_points(found: Examination, wanted: int) -> list[_Point]:
    free = found.storage.shm_free
    if free is None or free >= wanted:
        return []
    text = f"shared memory: {bytes_text(free)} free; Triton's Python models and NCCL use it"
    return [_Point(text, "in docker: --shm-size=1g", caution=True)]


def _image(toolchain: Toolchain | None) -> str:
    if toolchain is None:
        return triton_image("26.04")
    fitting = images_for(toolchain.version)
    return toolchain.image or (fitting[-1] if fitting else triton_image("26.04"))
