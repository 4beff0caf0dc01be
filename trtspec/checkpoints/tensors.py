"""Names, types and shapes of tensors, read from the header of a safetensors file without its data.

Format (huggingface/safetensors): 8 bytes, the header's length n as little-endian u64; n bytes of JSON, an object of
name → {dtype, shape, data_offsets} and an optional `__metadata__`; then the data, without holes or overlaps.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from trtspec.checkpoints.reading import REFETCH, is_lfs_pointer, not_readable
from trtspec.errors import CheckpointError
from trtspec.units import bytes_text

__all__ = ["Tensor", "read_safetensors_header"]

_MAX_HEADER = 100_000_000  # the limit of the format's own reader
_BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    """One tensor: its name, shape, type as its file spells it (`BF16`, `Q4_1`), size in bytes and file name."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    size: int
    file: str

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def read_safetensors_header(path: Path) -> list[Tensor]:
    """The tensors of `path` in file order; CheckpointError when the file is cut, corrupt or something else."""
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            head = stream.read(9)
            length = _header_length(path, head, size)
            raw = head[8:] + stream.read(length - 1)
    except OSError as error:
        raise not_readable(path, error) from None
    entries = _parse(path, raw)
    tensors = [_tensor(path, name, entry) for name, entry in entries.items()]
    _check_layout(path, entries, tensors, size - 8 - length)
    return sorted(tensors, key=lambda tensor: entries[tensor.name]["data_offsets"])


def _corrupt(path: Path, message: str) -> NoReturn:
    raise CheckpointError(message, where=str(path), fix=REFETCH)


def _header_length(path: Path, head: bytes, size: int) -> int:
    if size == 0:
        _corrupt(path, "is empty (0 bytes)")
    if is_lfs_pointer(head + b"https://git-lfs") or head.startswith(b"version "):
        fix = f"cd {path.parent} && git lfs pull"
        raise CheckpointError("is a Git LFS pointer, not the weights", where=str(path), fix=fix)
    if len(head) < 8:
        _corrupt(path, f"has {size} bytes, too few for a safetensors file")
    length = int(struct.unpack("<Q", head[:8])[0])
    if not 1 <= length <= _MAX_HEADER or head[8:] not in (b"{", b""):
        _corrupt(path, "is not a safetensors file: its header is not a JSON object")
    if length > size - 8:
        _corrupt(path, f"is cut off: {size} bytes, its header alone needs {length + 8}")
    return length


def _parse(path: Path, raw: bytes) -> dict[str, dict[str, Any]]:
    try:
        # strict like the format's own reader: UTF-8, an object, no NaN
        data = json.loads(raw.decode("utf-8"), parse_constant=lambda word: _corrupt(path, f"has {word} in its header"))
    except (UnicodeDecodeError, ValueError, RecursionError):
        _corrupt(path, "is not a safetensors file: its header is not JSON")
    if not isinstance(data, dict):
        _corrupt(path, "is not a safetensors file: its header is not a JSON object")
    metadata = data.pop("__metadata__", None)
    texts = isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())
    if metadata is not None and not texts:
        _corrupt(path, "has a __metadata__ that does not map text to text")
    return data


def _tensor(path: Path, name: str, entry: Any) -> Tensor:
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
        _corrupt(path, f"tensor {name!r} lacks dtype, shape or data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _BITS:
        _corrupt(path, f"tensor {name!r} has the unknown type {dtype!r}")
    if not _sizes(shape) or not _sizes(offsets) or len(offsets) != 2:
        _corrupt(path, f"tensor {name!r} has a shape or offsets that are not whole numbers")
    bits = math.prod(shape) * _BITS[dtype]
    if bits % 8 or bits // 8 != offsets[1] - offsets[0]:
        held = offsets[1] - offsets[0]
        _corrupt(
            path, f"tensor {name!r} of shape {shape} and type {dtype} needs {bits / 8:g} bytes, the file has {held}"
        )
    return Tensor(name, tuple(shape), dtype, bits // 8, path.name)


def _sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 64 for item in value)


def _check_layout(path: Path, entries: Mapping[str, Mapping[str, Any]], tensors: list[Tensor], available: int) -> None:
    end = 0
    for tensor in sorted(tensors, key=lambda item: entries[item.name]["data_offsets"]):
        start, stop = entries[tensor.name]["data_offsets"]
        if start != end:
            fault = "overlaps the one before it" if start < end else f"leaves a hole of {start - end} bytes before it"
            _corrupt(path, f"tensor {tensor.name!r} {fault}")
        end = stop
    if end > available:
        missing = end - available
        share = f"{bytes_text(available)} of {bytes_text(end)} are there"
        _corrupt(path, f"is cut off: {missing} bytes of tensor data are missing ({share})")
    if end < available:
        _corrupt(path, f"has {available - end} bytes that belong to no tensor")
