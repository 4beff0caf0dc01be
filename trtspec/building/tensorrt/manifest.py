"""manifest.json of converted checkpoints and engines: what is in the folder and what made it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtspec.building.built import MANIFEST
from trtspec.building.tensorrt.commands import Command
from trtspec.building.tensorrt.site import Site
from trtspec.building.tensorrt.steps import Product
from trtspec.files import write_json
from trtspec.provenance import file_sample, file_sha256, provenance

__all__ = ["Ran", "write_manifest"]

_HASHED = 64 << 20  # bytes: larger files are recorded by size and a sample


@dataclass(frozen=True)
class Ran:
    """One program that made part of a folder, how long it took, and the largest memory of its processes in bytes."""

    command: Command
    seconds: float
    peak_rss: int | None

    def to_json(self) -> dict[str, Any]:
        """As the manifest records it."""
        return {
            "stage": self.command.stage,
            "argv": list(self.command.argv),
            "env": dict(self.command.env),
            "seconds": round(self.seconds, 3),
            "peak_rss_bytes": self.peak_rss,
        }


def write_manifest(product: Product, site: Site, spec_name: str, work: Path, ran: Sequence[Ran]) -> None:
    """Describe the finished folder `work`; last of its files, so that a folder with a manifest is whole."""
    write_json(work / MANIFEST, _manifest(product, site, spec_name, work, ran))


def _manifest(product: Product, site: Site, spec_name: str, work: Path, ran: Sequence[Ran]) -> dict[str, Any]:
    request, engine = product.request, product.kind == "engine"
    return {
        "schema": 1,
        "runtime": "tensorrt_llm",
        "kind": product.kind,
        "spec": spec_name,
        "role": product.role,
        "roles": list(product.roles),
        "key": product.key,
        "files": _files(work),
        "checkpoint": {"folder": str(request.folder), "files": product.identity.files},
        "converted": product.needs.key if product.needs is not None else None,
        "versions": {"tensorrt_llm": site.toolchain.version, "image": site.image},
        "sm": site.gpus.sm if engine else None,
        "gpu": site.gpus.name if engine else None,
        "options": {
            "architecture": request.architecture,
            "dtype": request.dtype,
            "quantization": request.quantization,
            "kv_cache_dtype": request.kv_cache_dtype,
            "tp": request.tp,
            "pp": request.pp,
        },
        "commands": [item.to_json() for item in ran],
        "seconds": round(sum(item.seconds for item in ran), 3),
        "provenance": provenance(),
    }


def _files(work: Path) -> dict[str, dict[str, Any]]:
    files = {}
    for path in sorted(path for path in work.rglob("*") if path.is_file() and not path.is_symlink()):
        size = path.stat().st_size
        hashed = size <= _HASHED and path.suffix not in (".engine", ".safetensors")
        content = {"sha256": file_sha256(path)} if hashed else {"sha256": None, "sample": file_sample(path)}
        files[path.relative_to(work).as_posix()] = {"size": size, **content}
    return files
