"""Where the programs of a build run: version, tools, GPUs, and the container if there is one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from trtspec.building.built import BuildSettings
from trtspec.building.tensorrt.tools import Tools, find_tools
from trtspec.errors import BuildError, EnvironmentMissing
from trtspec.hardware.catalogue import Gpu, known_gpu, like_gpu
from trtspec.hardware.detect import DetectedGpu, detect_gpus
from trtspec.spec import SpecFile
from trtspec.toolchain.detect import Toolchain, installed_mismatch, resolve_toolchain
from trtspec.toolchain.releases import images_for, supports_sm, triton_image

__all__ = ["Gpus", "Site", "assumed_tools", "local_refusal", "look_around", "refuse_sm", "with_tools"]


@dataclass(frozen=True)
class Gpus:
    """The GPUs that a build may use.

    names: as CUDA_VISIBLE_DEVICES spells them. sm: compute capability, of these GPUs or else of spec.hardware (None:
    not known). name: of the GPU. model: the catalogue's row of the GPU that is here, of a like one where it has none.
    missing: why none is seen here.
    """

    names: tuple[str, ...]
    sm: int | None
    name: str | None
    model: Gpu | None = None
    missing: str | None = None


@dataclass(frozen=True)
class Site:
    """A toolchain, the image to run in (None: here), the GPUs, and whether its tools were found or are assumed."""

    toolchain: Toolchain
    gpus: Gpus
    image: str | None
    examples: Path | None
    assumed: bool


def look_around(spec_file: SpecFile, settings: BuildSettings) -> Site:
    """The site of a build; VersionUnsupported, SpecError or BuildError for what cannot be used at all.

    `assumed` is True where TensorRT-LLM of that version is neither here nor asked for in a container: enough to show
    commands as NVIDIA's image would run them, not to run them.
    """
    toolchain = resolve_toolchain(spec_file.spec, image=settings.image)
    given = spec_file.spec.tensorrt_llm.examples
    return Site(
        toolchain=toolchain,
        gpus=_gpus(spec_file),
        image=toolchain.image if settings.image else None,
        examples=None if given is None else (spec_file.root / given.expanduser()).resolve(),
        assumed=settings.image is None
        and (toolchain.trtllm_build is None or installed_mismatch(toolchain) is not None),
    )


def with_tools(site: Site, families: Iterable[str]) -> Tools:
    """The programs of the site; those of an image where it is one or stands in for an installation."""
    image = site.image or (_image(site.toolchain) if site.assumed else None)
    return find_tools(site.toolchain, sorted(set(families)), examples=site.examples, image=image)


def assumed_tools(site: Site, families: Iterable[str]) -> Tools:
    """The programs as NVIDIA's image has them: enough for keys, which do not depend on where programs lie."""
    return find_tools(site.toolchain, sorted(set(families)), image=_image(site.toolchain))


def _image(toolchain: Toolchain) -> str:
    """An image of the toolchain's version."""
    return toolchain.image or next(iter(images_for(toolchain.version)), triton_image("26.04"))


def local_refusal(site: Site) -> None:
    """An error when the programs cannot run: another version, no TensorRT-LLM, no docker, no GPU."""
    toolchain = site.toolchain
    if site.image is not None:
        if shutil.which("docker") is None:
            raise EnvironmentMissing("docker is not installed", fix="install docker, or run trtspec in the image")
        return
    if mismatch := installed_mismatch(toolchain):
        fix = f"build in its image: --in-docker {_image(toolchain)}; or write the installed version"
        raise BuildError(mismatch, where="tensorrt_llm.version", fix=fix)
    if toolchain.trtllm_build is None:
        raise EnvironmentMissing(
            f"trtllm-build (TensorRT-LLM {toolchain.version}) is not on PATH",
            fix=f"trtspec build --in-docker {_image(toolchain)}; or run trtspec inside it; or pip install "
            "'trtspec[tensorrt-llm]' --extra-index-url https://pypi.nvidia.com; --dry-run needs none of it",
        )
    if site.gpus.missing is not None and not _devices_exist():
        raise EnvironmentMissing(
            f"engines are built on a GPU, and none is seen here: {site.gpus.missing}",
            fix="build on the machine that will serve (in a container: --gpus all); --dry-run shows the commands",
        )


def _devices_exist() -> bool:
    """True where device files are there although NVML is not (a container without the utility capability)."""
    return Path("/dev/nvidiactl").exists()


def _gpus(spec_file: SpecFile) -> Gpus:
    hardware = spec_file.spec.hardware
    wanted = None if hardware is None else known_gpu(hardware.gpu)
    detected, reason = detect_gpus()
    visible = _visible(detected)
    if not visible:
        sm, name = (None, None) if wanted is None else (wanted.sm, wanted.name)
        return Gpus((), sm, name, missing=reason or "CUDA_VISIBLE_DEVICES hides all of them")
    sms = sorted({gpu.sm for _, gpu in visible})
    if len(sms) > 1:
        names = ", ".join(f"{name}: {gpu.name} (SM {gpu.sm})" for name, gpu in visible)
        raise BuildError(
            f"the GPUs here have different architectures, and an engine fits one only: {names}",
            fix="choose some: CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0 trtspec build …",
        )
    if wanted is not None and wanted.sm != sms[0]:
        raise BuildError(
            f"this machine has {visible[0][1].name} (SM {sms[0]}), hardware.gpu is {wanted.name} (SM {wanted.sm}); "
            "an engine runs only on the architecture it was built on",
            where=str(spec_file.path),
            fix="build on a machine with that GPU, or correct hardware.gpu",
        )
    gpu = visible[0][1]
    model = gpu.known or like_gpu(gpu.name, gpu.sm)
    return Gpus(tuple(name for name, _ in visible), sms[0], gpu.name, model)


def _visible(detected: Sequence[DetectedGpu]) -> list[tuple[str, DetectedGpu]]:
    """Name and GPU of those that CUDA_VISIBLE_DEVICES leaves: like CUDA, up to the first name that means none.

    Names that are no numbers (GPU-…, MIG-…) count as the first GPU.
    """
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is None or not detected:
        return [(str(gpu.index), gpu) for gpu in detected if not gpu.mig] or [("0", gpu) for gpu in detected[:1]]
    by_index = {str(gpu.index): gpu for gpu in reversed(detected)}
    names = [name.strip() for name in given.split(",")]
    known = takewhile(lambda name: name in by_index or name.startswith(("GPU-", "MIG-")), names)
    return [(name, by_index.get(name, detected[0])) for name in known]


def refuse_sm(site: Site) -> None:
    """BuildError when the version cannot run speculative engines on the GPU."""
    if site.gpus.sm is not None and (why := supports_sm(site.toolchain.version, site.gpus.sm)):
        raise BuildError(why, where=site.gpus.name, fix="use another GPU, or set tensorrt_llm.version")
