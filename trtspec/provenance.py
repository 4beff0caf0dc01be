"""What made an artefact: versions, machine, command line, content hashes."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Iterable
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from trtspec import __version__

__all__ = ["file_sample", "file_sha256", "machine_facts", "package_versions", "provenance", "text_key"]

_PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "numpy",
    "tritonclient",
    "nvidia-pytriton",
    "tensorrt-llm",
)
_CHUNK = 1 << 22
_SAMPLE = 1 << 14  # bytes


def file_sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_CHUNK):
            digest.update(block)
    return digest.hexdigest()


def file_sample(path: Path) -> str:
    """Hash of what stands in the middle and at the end of a file: other weights of the same shape differ there."""
    digest = hashlib.sha256()
    size = path.stat().st_size
    with path.open("rb") as stream:
        for place in (size // 2, max(0, size - _SAMPLE)):
            stream.seek(place)
            digest.update(stream.read(_SAMPLE))
    return digest.hexdigest()[:16]


def text_key(parts: Iterable[str], length: int = 16) -> str:
    """A short hexadecimal key of `parts`, which are separated so that no two lists collide."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode(errors="surrogatepass"))
    return digest.hexdigest()[:length]


def package_versions(names: Iterable[str] = _PACKAGES) -> dict[str, str | None]:
    """Installed version of each distribution, None where it is not installed."""
    return {name: _version(name) for name in names}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def provenance() -> dict[str, Any]:
    """trtspec's version, argv, interpreter, platform, package versions and the time in UTC."""
    return {
        "trtspec": __version__,
        "argv": sys.argv,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": package_versions(),
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def machine_facts() -> dict[str, Any]:
    """CPU, memory and system of this machine."""
    import psutil

    return {
        "system": platform.platform(),
        "cpu": _cpu_name(),
        "cpus": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_average": list(psutil.getloadavg()),
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
