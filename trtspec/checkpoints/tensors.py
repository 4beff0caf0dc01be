"""Names, types and shapes of tensors, read from the header of a safetensors file without its data.

Format (huggingface/safetensors): 8 bytes, the header's length n as little-endian u64; n bytes of JSON, an object of
name → {dtype, shape, data_offsets} and an optional `__metadata__`; then the data, without holes or overlaps.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, NoReturn

from trtspec.checkpoints.reading import is_lfs_pointer, not_readable, open_file, refetch
from trtspec.errors import CheckpointError
from trtspec.units import bytes_text

__all__ = ["Tensor", "read_safetensors_header"]

_MAX_HEADER = 100_000_000  # the limit of the format's own reader
_MOST_DIMENSIONS = 64  # numpy's limit
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
        with open_file(path) as stream:
            head = stream.read(9)
            length = _header_length(path, head, size)
            raw = head[8:] + stream.read(length - 1)
    except OSError as error:
        raise not_readable(path, error) from None
    file = path.name
    found: list[_Found] = [(*_offsets(path, name, entry), name, entry) for name, entry in _parse(path, raw).items()]
    found.sort(key=itemgetter(0, 1))
    tensors = [_tensor(path, file, item) for item in found]
    _check_layout(path, found, size - 8 - length)
    return tensors


def _corrupt(path: Path, message: str, code: str = "corrupt") -> NoReturn:
    raise CheckpointError(message, where=str(path), fix=refetch(path), code=code)


def _header_length(path: Path, head: bytes, size: int) -> int:
    if size == 0:
        _corrupt(path, "is empty (0 bytes)", "truncated")
    if is_lfs_pointer(head + b"https://git-lfs") or head.startswith(b"version "):
        fix = f"cd {path.parent} && git lfs pull"
        message = "is a Git LFS pointer, not the weights"
        raise CheckpointError(message, where=str(path), fix=fix, code="lfs-pointer")
    if len(head) < 8:
        _corrupt(path, f"has {size} bytes, too few for a safetensors file")
    length = int(struct.unpack("<Q", head[:8])[0])
    if not 1 <= length <= _MAX_HEADER or head[8:] not in (b"{", b""):
        _corrupt(path, "is not a safetensors file: its header is not a JSON object")
    if length > size - 8:
        _corrupt(path, f"is cut off: {size} bytes, its header alone needs {length + 8}", "truncated")
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


_Found = tuple[int, int, str, Mapping[str, Any]]  # where its data begins and ends, its name and its entry


def _offsets(path: Path, name: str, entry: Any) -> tuple[int, int]:
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
        _corrupt(path, f"tensor {name!r:.120} lacks dtype, shape or data_offsets")
    offsets = entry["data_offsets"]
    if not _sizes(offsets) or len(offsets) != 2 or not _sizes(entry["shape"]) or len(entry["shape"]) > _MOST_DIMENSIONS:
        _corrupt(path, f"tensor {name!r:.120} has a shape or offsets that are not whole numbers")
    return offsets[0], offsets[1]


def _tensor(path: Path, file: str, found: _Found) -> Tensor:
    start, stop, name, entry = found
    dtype, shape = entry["dtype"], entry["shape"]
    if not isinstance(dtype, str) or dtype not in _BITS:
        _corrupt(path, f"tensor {name!r:.120} has the unknown type {dtype!r:.40}")
    bits = math.prod(shape) * _BITS[dtype]
    if bits % 8 or bits // 8 != stop - start:
        needed = f"of shape {shape} and type {dtype} needs {bits // 8 if bits % 8 == 0 else f'{bits}/8'} bytes"
        _corrupt(path, f"tensor {name!r:.120} {needed}, the file has {stop - start}")
    return Tensor(name, tuple(shape), dtype, bits // 8, file)


def _sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 64 for item in value)


def _check_layout(path: Path, found: Sequence[_Found], available: int) -> None:
    end = 0
    for start, stop, name, _ in found:
        if start != end:
            fault = "overlaps the one before it" if start < end else f"leaves a hole of {start - end} bytes before it"
            _corrupt(path, f"tensor {name!r:.120} {fault}")
        end = stop
    if end > available:
        missing = end - available
        share = f"{bytes_text(available)} of {bytes_text(end)} are there"
        _corrupt(path, f"is cut off: {missing} bytes of tensor data are missing ({share})", "truncated")
    if end < available:
        _corrupt(path, f"has {available - end} bytes that belong to no tensor")
