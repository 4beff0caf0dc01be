"""Container images: which release of TensorRT-LLM an image string stands for, in any spelling people use."""

from __future__ import annotations

import re

from trtspec.toolchain.table import RELEASES, Release
from trtspec.toolchain.versions import nearest_release

__all__ = ["full_image", "image_tag", "is_plain_triton", "release_of_image", "triton_image", "version_of_image"]

_TRITON = "nvcr.io/nvidia/tritonserver"
_RELEASE = "nvcr.io/nvidia/tensorrt-llm/release"  # one image a version; only 0.20 and later are published there
_RELEASE_NAME = "tensorrt-llm/release"
_SUFFIX = "-trtllm-python-py3"
_MONTH = re.compile(r"(\d{2}\.\d{2})(-.+)?")
_VERSION = re.compile(r"v?(\d+\.\d+\.\d+([.a-z]\S*)?)")


def triton_image(month: str) -> str:
    """`26.04` → nvcr.io/nvidia/tritonserver:26.04-trtllm-python-py3."""
    return f"{_TRITON}:{month}{_SUFFIX}"


def full_image(image_or_tag: str) -> str:
    """What `docker run` takes: tags like `26.04` or `1.2.1` get NVIDIA's repository, other names stay as they are."""
    text = image_or_tag.strip()
    if month := _MONTH.fullmatch(text):
        return f"{_TRITON}:{text}" if month[2] else triton_image(month[1])
    if _VERSION.fullmatch(text):
        return f"{_RELEASE}:{text.removeprefix('v')}"
    if text.startswith(("tritonserver:", "tensorrt-llm/release:")):
        return f"nvcr.io/nvidia/{text}"
    if text.startswith("nvidia/"):
        return f"nvcr.io/{text}"
    return text


def image_tag(image: str) -> tuple[str, str]:
    """(repository, tag) of an image in any spelling, without a digest; the tag is empty where none is given."""
    name = full_image(image).partition("@")[0]
    head, slash, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    return f"{head}{slash}{last}", tag


def release_of_image(image: str) -> Release | None:
    """The release inside an image of NVIDIA's (or a mirror that kept its name and tag); None when not known."""
    repository, tag = image_tag(image)
    last = repository.rpartition("/")[2]
    if last == "tritonserver" and tag.endswith(_SUFFIX):
        month = tag.removesuffix(_SUFFIX)
        return next((row for row in RELEASES if month in row.images), None)
    return nearest_release(tag) if repository.endswith(_RELEASE_NAME) else None


def version_of_image(image: str) -> str | None:
    """The version of TensorRT-LLM inside an image; None when not known."""
    release = release_of_image(image)
    repository, tag = image_tag(image)
    if release is None:
        return None
    return tag if repository.endswith(_RELEASE_NAME) else release.version


def is_plain_triton(image: str) -> bool:
    """True for a Triton image of another flavour (`26.04-py3`, `26.04-vllm-python-py3`): no TensorRT-LLM in it."""
    repository, tag = image_tag(image)
    month = _MONTH.fullmatch(tag)
    return repository.rpartition("/")[2] == "tritonserver" and month is not None and not tag.endswith(_SUFFIX)
