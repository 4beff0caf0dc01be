"""Writing a safetensors file tensor by tensor, so that memory holds one tensor at a time."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trtspec.progress import Advance

if TYPE_CHECKING:
    import torch

__all__ = ["Entry", "entry_size", "write_safetensors"]

_SIZES = {"F32": 4, "F16": 2, "BF16": 2, "F64": 8, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


@dataclass(frozen=True)
class Entry:
    """A tensor to write: name, type as safetensors spells it, and shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]


def entry_size(entry: Entry) -> int:
    """Bytes of an entry's data."""
    return _SIZES[entry.dtype] * math.prod(entry.shape)


def write_safetensors(
    path: Path, entries: Iterable[Entry], read: Callable[[Entry], torch.Tensor], advance: Advance
) -> str:
    """Write `read(entry)` for every entry; the file's SHA-256. `advance` hears of each tensor's bytes."""
    ordered = list(entries)
    digest = hashlib.sha256()
    with path.open("wb") as stream:
        header = _header(ordered)
        stream.write(header)
        digest.update(header)
        for entry in ordered:
            data = _bytes(read(entry), entry)
            stream.write(data)
            digest.update(data)
            advance(len(data))
    return digest.hexdigest()


def _header(entries: list[Entry]) -> bytes:
    document: dict[str, Mapping[str, object]] = {"__metadata__": {"format": "pt"}}
    end = 0
    for entry in entries:
        start, end = end, end + entry_size(entry)
        document[entry.name] = {"dtype": entry.dtype, "shape": list(entry.shape), "data_offsets": [start, end]}
    text = json.dumps(document, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _bytes(tensor: torch.Tensor, entry: Entry) -> memoryview:
    import torch

    flat = tensor.detach().contiguous().cpu().reshape(-1)
    data = flat.view(torch.uint8).numpy().data if flat.numel() else memoryview(b"")
    if data.nbytes != entry_size(entry):
        raise ValueError(f"{entry.name} has {data.nbytes} bytes, {entry_size(entry)} were announced")
    return data.cast("B")
