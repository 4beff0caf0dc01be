"""Version numbers of TensorRT-LLM: reading them, finding the row that stands for one, telling whether two agree."""

from __future__ import annotations

import reprlib

from packaging.version import Version

from trtspec.errors import VersionUnsupported
from trtspec.toolchain.table import RELEASES, Release

__all__ = ["REFERENCE", "nearest_release", "parse_version", "same_release"]

REFERENCE = "1.2.1"


def parse_version(version: str) -> Version:
    """`version` as a version number; VersionUnsupported when it is none."""
    try:
        return Version(version.strip())
    except ValueError:  # InvalidVersion, or a number that has more digits than Python reads
        message = f"{reprlib.repr(version)} is not a version of TensorRT-LLM"
        raise VersionUnsupported(message, version=version, fix=f"write a number, e.g. {REFERENCE}") from None


def nearest_release(version: str) -> Release | None:
    """The known row of the same major.minor that fits `version`, else the nearest older, else the oldest; or None."""
    try:
        asked = parse_version(version)
    except VersionUnsupported:
        return None
    rows = [row for row in RELEASES if Version(row.version).release[:2] == asked.release[:2]]
    fitting = [row for row in rows if same_release(version, row.version)]
    older = [row for row in rows if Version(row.version) <= asked]
    return next(iter(fitting or older or rows[-1:]), None)


def same_release(one: str, other: str) -> bool:
    """True when engines of `one` load in `other`: equal up to numbers left out (`1.2` fits 1.2.0 and 1.2.1).

    TensorRT-LLM checks the version in an engine's config.json; a local part (`+cu130`) does not count, pre- and
    post-releases do.
    """
    first, second = parse_version(one), parse_version(other)
    shortest = min(len(first.release), len(second.release))
    if first.release[:shortest] != second.release[:shortest]:
        return False
    if len(first.release) != len(second.release):
        return (first.pre, first.post) == (second.pre, second.post)
    return first.public == second.public
