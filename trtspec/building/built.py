"""What building hands back, whatever the runtime, and whether a folder on disk is whole."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtspec.files import read_json
from trtspec.provenance import file_sample, file_sha256
from trtspec.spec import Role

__all__ = ["MANIFEST", "BuildSettings", "BuiltEngine", "folder_size", "is_complete", "read_manifest"]

MANIFEST = "manifest.json"
_SMALL = 1 << 20  # bytes of a file that is hashed again to see whether it is whole


@dataclass(frozen=True)
class BuiltEngine:
    """A finished engine; `seconds` is what this call spent on it."""

    role: Role
    path: Path
    key: str
    cached: bool
    seconds: float
    size_bytes: int


@dataclass(frozen=True)
class BuildSettings:
    """How to build; the fields after `force` are for runtime tensorrt_llm.

    force: build engines again that are there. reconvert: their converted checkpoints as well. jobs: programs at once
    (None: as the GPUs allow). full_hash: hash the weights in full, not by samples. image: run inside this container.
    """

    force: bool = False
    reconvert: bool = False
    jobs: int | None = None
    full_hash: bool = False
    image: str | None = None


def is_complete(folder: Path) -> bool:
    """True for a folder that holds every file of its manifest as it was written.

    Small files are compared whole, large ones by their size and, where the manifest has one, a sample.
    """
    try:
        files: dict[str, dict[str, Any]] = read_json(folder / MANIFEST)["files"]
        return bool(files) and all(_as_written(folder / name, entry) for name, entry in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def _as_written(path: Path, entry: dict[str, Any]) -> bool:
    size, digest, sample = entry["size"], entry.get("sha256"), entry.get("sample")
    if path.stat().st_size != size:
        return False
    if sample is not None and file_sample(path) != sample:
        return False
    return digest is None or size > _SMALL or file_sha256(path) == digest


def read_manifest(folder: Path) -> dict[str, Any]:
    """The folder's manifest.json; empty when there is none that can be read."""
    try:
        document = read_json(folder / MANIFEST)
    except (OSError, ValueError, RecursionError):  # not JSON, or no text at all
        return {}
    return document if isinstance(document, dict) else {}


def folder_size(folder: Path) -> int:
    """Bytes of the files in a folder; links do not count."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
