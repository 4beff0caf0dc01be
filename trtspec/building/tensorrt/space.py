"""Disk space and host memory that a build needs, estimated from the size of the weights, before it starts."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trtspec.building.tensorrt.keys import Identity
from trtspec.checkpoints.config import ModelConfig
from trtspec.checkpoints.weights import INDEX
from trtspec.errors import BuildError
from trtspec.files import read_json
from trtspec.units import bytes_text

__all__ = ["Need", "converted_size", "engine_size", "memory_note", "require_space", "source_size"]

# bits of a weight after quantization, scales included: 4-bit AWQ has a 16-bit scale for each group of 128,
# NVFP4 an 8-bit one for each 16
_BITS = {"fp8": 8.0, "int8_sq": 8.1, "int8_wo": 8.1, "int4_wo": 4.2, "int4_awq": 4.2, "w4a8_awq": 4.2, "nvfp4": 4.6}
_RESERVE = 256 << 20  # bytes of free space that a build leaves
_RANK = 64 << 20  # bytes of an engine file besides its weights: plan, kernels, padding
_MARGIN = 1.02
_LARGEST = 1 << 60  # bytes that an index may claim


@dataclass(frozen=True)
class Need:
    """Bytes that a step will write, and for what."""

    label: str
    size: int


def source_size(folder: Path, identity: Identity) -> int | None:
    """Bytes of the weight files, from the index where they are not here; None when neither tells."""
    files = [folder / name for name in identity.weight_files()]
    if files and not identity.absent:
        return sum(file.stat().st_size for file in files)
    try:
        size = int(read_json(folder / INDEX)["metadata"]["total_size"])
    except (OSError, ValueError, OverflowError, KeyError, TypeError, RecursionError):
        return None
    return size if 0 < size < _LARGEST else None


def converted_size(source: int, config: ModelConfig, quantization: str, tp: int) -> int:
    """Bytes of a converted checkpoint (and, nearly, of the engines' weights), all ranks together.

    Weights shrink to the quantization's width; embedding and head stay at 16 bits, and each rank holds the embedding.
    """
    edges = 2 * (config.vocab_size or 0) * (config.hidden or 0)  # bytes of one 16-bit embedding or head
    if quantization in _BITS and config.quantization is None:
        source = int(max(source - 2 * edges, 0) * _BITS[quantization] / _stored_bits(config)) + 2 * edges
    return int((source + (tp - 1) * edges) * _MARGIN)


def _stored_bits(config: ModelConfig) -> int:
    return 32 if config.dtype == "float32" else 16


def engine_size(converted: int, world_size: int) -> int:
    """Bytes of the engine files made of a converted checkpoint."""
    return converted + world_size * _RANK


def require_space(where: Path, needs: Sequence[Need]) -> None:
    """BuildError naming need, free space and place when the steps' outputs do not fit on the disk of `where`."""
    existing = next(path for path in (where, *where.parents) if path.exists())
    free, needed = shutil.disk_usage(existing).free, sum(need.size for need in needs)
    if free >= needed + _RESERVE:
        return
    parts = ", ".join(f"{need.label} {bytes_text(need.size)}" for need in needs)
    raise BuildError(
        f"about {bytes_text(needed)} are needed ({parts}), only {bytes_text(free)} are free",
        where=str(existing),
        fix="free some space (trtspec engines prune lists what is unused), or put the spec's folder on a larger disk",
    )


def memory_note(label: str, source: int) -> str | None:
    """A warning when loading `source` bytes of weights may not fit into the machine's memory."""
    import psutil

    available = int(psutil.virtual_memory().available)
    if source <= available:
        return None
    return f"{label} loads {bytes_text(source)} of weights; {bytes_text(available)} of memory are free here"
