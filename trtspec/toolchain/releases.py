"""Which TensorRT-LLM release a version, an image or a GPU stands for, and whether engines can be made with it."""

from __future__ import annotations

from packaging.specifiers import SpecifierSet

from trtspec.errors import VersionUnsupported
from trtspec.toolchain.images import full_image, release_of_image, triton_image, version_of_image
from trtspec.toolchain.support import sm_caution, supports_sm
from trtspec.toolchain.table import FEATURES, RELEASES, Release
from trtspec.toolchain.versions import REFERENCE, nearest_release, parse_version, same_release

__all__ = [
    "FEATURES",
    "REFERENCE",
    "RELEASES",
    "SUPPORTED",
    "Release",
    "find_release",
    "full_image",
    "images_for",
    "is_supported",
    "minor_of",
    "nearest_release",
    "parse_version",
    "release_of_image",
    "same_release",
    "sm_caution",
    "supports_sm",
    "triton_image",
    "version_of_image",
]

SUPPORTED = ">=1.0,<1.3"

_SPECIFIERS = SpecifierSet(SUPPORTED)
_REMOVED = (
    "trtllm-build, the checkpoint converters and Triton's tensorrtllm backend were removed in its release candidates"
)
_INSTEAD = (
    f"set tensorrt_llm.version to {REFERENCE} and build in {triton_image('26.04')}; newer releases serve draft and "
    "target without engines, through the LLM API, which trtspec cannot do yet"
)


def is_supported(version: str) -> bool:
    """True for releases in `SUPPORTED`, their post-releases, and pre-releases of 1.1 and 1.2."""
    return _SPECIFIERS.contains(parse_version(version), prereleases=True)


def minor_of(version: str) -> str:
    """`1.0`, `1.1` or `1.2`; VersionUnsupported with the reason for any other release."""
    parsed = parse_version(version)
    if _SPECIFIERS.contains(parsed, prereleases=True):
        return f"{parsed.major}.{parsed.minor}"
    if parsed.release >= (1, 3):
        message = f"TensorRT-LLM {version} cannot build engines: {_REMOVED} of 1.3; supported is {SUPPORTED}"
        raise VersionUnsupported(message, version=version, fix=_INSTEAD)
    message = f"TensorRT-LLM {version} is older than what trtspec knows the flags of; supported is {SUPPORTED}"
    fix = f"use {REFERENCE} ({triton_image('26.04')}) or 1.0.0 ({triton_image('25.10')}) and build the engines again"
    raise VersionUnsupported(message, version=version, fix=fix)


def find_release(version: str) -> Release:
    """The known row that stands for `version` (1.2.0rc6 → 1.2.0, 1.2 → 1.2.1); VersionUnsupported when none does."""
    row = nearest_release(version)
    if row is None:
        parse_version(version)
        known = f"{RELEASES[-1].version} to {RELEASES[0].version}"
        message = f"TensorRT-LLM {version} is not known; the table goes from {known}"
        raise VersionUnsupported(message, version=version, fix=f"use {REFERENCE}")
    return row


def images_for(version: str) -> tuple[str, ...]:
    """Full names of the Triton images that carry `version`, newest first; empty when none is known."""
    row = nearest_release(version)
    if row is None or not same_release(version, row.version):
        return ()
    return tuple(triton_image(month) for month in row.images)
