"""Where a server comes from: the one of nvidia-pytriton, one that is installed here, or NVIDIA's image."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trtspec.errors import EnvironmentMissing, UsageError
from trtspec.serving.served import BACKEND
from trtspec.spec import Spec

__all__ = ["WAYS", "Host", "Way", "choose_way", "image_for", "look_around"]

Way = Literal["embedded", "path", "docker"]
WAYS: tuple[Way, ...] = ("embedded", "path", "docker")
_USUAL = Path("/opt/tritonserver/bin/tritonserver")


@dataclass(frozen=True)
class Host:
    """What this machine has: a tritonserver (and whether TensorRT-LLM's backend lies beside it), docker, mpirun.

    triton: its release (25.10) where the environment says it, as in NVIDIA's images; tensorrt_llm: the version here.
    """

    tritonserver: Path | None = None
    backend: bool = False
    docker: bool = False
    mpirun: bool = False
    triton: str | None = None
    tensorrt_llm: str | None = None


def look_around() -> Host:
    """This machine."""
    from trtspec.toolchain.detect import installed_version

    found = shutil.which("tritonserver") or (str(_USUAL) if os.access(_USUAL, os.X_OK) else None)
    binary = Path(found) if found else None
    return Host(
        tritonserver=binary,
        backend=binary is not None and (binary.resolve().parent.parent / "backends" / BACKEND).is_dir(),
        docker=shutil.which("docker") is not None,
        mpirun=shutil.which("mpirun") is not None,
        triton=os.environ.get("NVIDIA_TRITON_SERVER_VERSION"),
        tensorrt_llm=installed_version(),
    )


def choose_way(
    spec: Spec, host: Host, way: Way | None = None, *, image: str | None = None, preview: bool = False
) -> Way:
    """How to run the spec's server here.

    The torch runtime: embedded. TensorRT-LLM: a tritonserver with its backend, else docker. EnvironmentMissing says
    what was looked for; a preview needs none of it.
    """
    if spec.runtime == "torch":
        if way in ("path", "docker"):
            message = f"the torch runtime's models import trtspec: they run in the embedded server, not with {way}"
            raise UsageError(message, fix="leave out --with, or set runtime: tensorrt_llm")
        return "embedded"
    if way == "embedded":
        raise UsageError("the embedded server has only the Python backend, not TensorRT-LLM's", fix="--with docker")
    if way is None:
        way = "docker" if image is not None or not host.backend else "path"
    if not preview and (problem := _lacking(way, host)):
        raise EnvironmentMissing(
            f"TensorRT engines are served by a tritonserver with the backend {BACKEND}: {problem}",
            fix="run trtspec in NVIDIA's image, or install docker (--with docker); --dry-run shows the command",
        )
    return way


def _lacking(way: Way, host: Host) -> str | None:
    if way == "docker":
        local = "no tritonserver is here" if host.tritonserver is None else f"{host.tritonserver} lacks it"
        return None if host.docker else f"{local}, and docker is not on PATH"
    if host.tritonserver is None:
        return f"neither on PATH nor at {_USUAL}"
    return None if host.backend else f"{host.tritonserver} lacks it"


def image_for(spec: Spec, version: str | None, image: str | None = None) -> str:
    """The image to run engines of `version` in: the option's, the spec's, else NVIDIA's newest with that version.

    UsageError when the image is known to carry another version; EnvironmentMissing when none is known.
    """
    from trtspec.toolchain.images import full_image, version_of_image
    from trtspec.toolchain.releases import REFERENCE, images_for, same_release

    wanted = version or spec.tensorrt_llm.version or REFERENCE
    if given := image or spec.tensorrt_llm.image:
        carried = version_of_image(given)
        if version and carried and not same_release(carried, version):
            known = next(iter(images_for(version)), None)
            raise UsageError(
                f"{full_image(given)} carries TensorRT-LLM {carried}, the engines were built with {version}: "
                "an engine loads only in the version that built it",
                fix=f"--image {known}" if known else "trtspec build with the image's version",
            )
        return full_image(given)
    known = next(iter(images_for(wanted)), None)
    if known is None:
        raise EnvironmentMissing(f"no image with TensorRT-LLM {wanted} is known", fix="--image NAME")
    return known
