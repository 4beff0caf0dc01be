"""Which TensorRT-LLM a spec means on this machine: what is written, what is installed, what the image carries."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from trtspec.errors import Problem, SpecError
from trtspec.spec import Spec
from trtspec.spec.model import TensorRTLLM
from trtspec.toolchain.images import full_image, image_tag, is_plain_triton, triton_image, version_of_image
from trtspec.toolchain.releases import REFERENCE, images_for, minor_of, parse_version, same_release

__all__ = ["Origin", "Toolchain", "installed_mismatch", "installed_version", "resolve_section", "resolve_toolchain"]

_IMAGE = re.compile(r"\w[\w.:/@-]*", re.ASCII)
Origin = Literal["spec", "installed", "image", "default"]


@dataclass(frozen=True)
class Toolchain:
    """The TensorRT-LLM that engines are made with.

    `origin` says what decided `version`; `image` is a full name; `installed` and `trtllm_build` (a path) are what this
    machine has, None where it has none.
    """

    version: str
    minor: str
    origin: Origin
    image: str | None
    installed: str | None
    trtllm_build: str | None


def resolve_toolchain(spec: Spec, *, image: str | None = None) -> Toolchain:
    """The toolchain of `spec`; `image` (a command's --in-docker) replaces tensorrt_llm.image.

    The version is the spec's (`1.2`: the 1.2.x that is there); else the installed one, unless an image is given that
    carries another; else the image's; else `REFERENCE`. SpecError when version and image contradict each other or say
    too little; VersionUnsupported outside `SUPPORTED`.
    """
    return resolve_section(spec.tensorrt_llm, image=image)


def resolve_section(section: TensorRTLLM, *, image: str | None = None) -> Toolchain:
    """`resolve_toolchain` for a spec's section alone; an empty one stands for this machine without a spec."""
    named = image or section.image
    installed = installed_version()
    version, origin = _choose(section.version, named, installed)
    return Toolchain(
        version=version,
        minor=minor_of(version),
        origin=origin,
        image=full_image(named) if named else None,
        installed=installed,
        trtllm_build=shutil.which("trtllm-build"),
    )


def _choose(version: str | None, image: str | None, installed: str | None) -> tuple[str, Origin]:
    if image and not _IMAGE.fullmatch(image.strip()):
        raise SpecError("tensorrt_llm", [Problem("tensorrt_llm.image", f"{image!r} is no name of an image")])
    carried = version_of_image(image) if image else None
    if version is not None:
        parse_version(version)
        if image and carried is not None and not same_release(version, carried):
            raise _contradiction(version, image, carried)
        return _in_full(version, carried if image else installed), "spec"
    if image and carried is None:
        raise _unknown_image(image)
    if installed is not None and (carried is None or same_release(installed, carried)):
        return installed, "installed"
    return (carried, "image") if carried is not None else (REFERENCE, "default")


def _in_full(version: str, known: str | None) -> str:
    """`version`, or where it leaves numbers out (`1.2`) the release that is there and fits it."""
    short = len(parse_version(version).release) < 3
    return known if short and known is not None and same_release(version, known) else version


def _contradiction(version: str, image: str, carried: str) -> SpecError:
    fitting = [image_tag(image)[1].removesuffix("-trtllm-python-py3") for image in images_for(version)]
    known = f"images with {version}: {', '.join(fitting)}" if fitting else f"no image with {version} is known"
    message = f"{full_image(image)} carries TensorRT-LLM {carried}, tensorrt_llm.version is {version}"
    fix = f"set tensorrt_llm.image: {fitting[0]}" if fitting else f"set tensorrt_llm.version to {carried}"
    return SpecError("", [Problem("tensorrt_llm.image", f"{message}; {known}")], fix=fix)


def _unknown_image(image: str) -> SpecError:
    if is_plain_triton(image):
        message = f"{full_image(image)} has no TensorRT-LLM in it; the flavour with it ends in -trtllm-python-py3"
        return SpecError("", [Problem("tensorrt_llm.image", message)], fix=f"use {triton_image('26.04')}")
    message = f"which TensorRT-LLM is in {image} is not known"
    fix = f"say it: tensorrt_llm.version: {REFERENCE}"
    return SpecError("", [Problem("tensorrt_llm.version", message)], fix=fix)


def installed_mismatch(toolchain: Toolchain) -> str | None:
    """Why the TensorRT-LLM installed here must not build these engines; None when it may, or when none is installed."""
    if toolchain.installed is None or same_release(toolchain.installed, toolchain.version):
        return None
    decided = "the spec's image carries" if toolchain.origin == "image" else "the spec asks for"
    return f"TensorRT-LLM {toolchain.installed} is installed here, {decided} {toolchain.version}"


def installed_version() -> str | None:
    """Version of TensorRT-LLM in this interpreter's environment, else of the `trtllm-build` on PATH; None: neither."""
    try:
        return metadata.version("tensorrt-llm")
    except metadata.PackageNotFoundError:
        script = shutil.which("trtllm-build")
        return None if script is None else _version_beside(Path(script))


def _version_beside(script: Path) -> str | None:
    """From the package folders of the environment that holds `script` (a Triton image: /usr/local), nothing is run."""
    for prefix in dict.fromkeys((script.parent.parent, script.resolve().parent.parent)):
        for info in sorted(prefix.glob("lib/python3*/*-packages/tensorrt_llm-*.dist-info")):
            if found := re.fullmatch(r"tensorrt_llm-(.+)\.dist-info", info.name):
                return found[1]
    return None
