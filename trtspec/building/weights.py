"""An engine's model.safetensors: shared with a sibling, copied, or converted tensor by tensor."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtspec.building.streaming import Entry, entry_size, write_safetensors
from trtspec.checkpoints.tensors import Tensor
from trtspec.checkpoints.weights import SINGLE, Weights
from trtspec.errors import BuildError
from trtspec.progress import Advance, Reporter

__all__ = ["Written", "conversion", "output_size", "stored_dtype", "write_weights"]

_NAMES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
_FLOATS = {"F32", "F16", "BF16", "F64"}
_BLOCK = 1 << 22


@dataclass(frozen=True)
class Written:
    """How model.safetensors came about and its SHA-256."""

    how: str
    sha256: str


def stored_dtype(weights: Weights) -> str:
    """The type of most of a checkpoint's bytes, as torch names it; GGUF weights count as float32."""
    most = next(iter(weights.bytes_by_dtype), "F32")
    return next((name for name, short in _NAMES.items() if short == most), "float32")


def conversion(weights: Weights, dtype: str) -> str:
    """`copy` when the checkpoint's one file can be taken as it is for `dtype` ("auto": as stored), else `convert`."""
    if weights.format == "gguf" or weights.files != (SINGLE,) or weights.unindexed:
        return "convert"
    return "copy" if all(_target(tensor, dtype) == tensor.dtype for tensor in weights.tensors) else "convert"


def output_size(weights: Weights, dtype: str) -> int:
    """Bytes that model.safetensors will need, its header left out."""
    if weights.format == "gguf":
        return weights.parameters * (4 if dtype in {"auto", "float32"} else 2)
    return sum(entry_size(entry) for entry in _entries(weights, dtype))


def write_weights(folder: Path, weights: Weights, dtype: str, target: Path, reporter: Reporter) -> Written:
    """Write `target` from the checkpoint in `folder`; GGUF checkpoints are `gguf.convert_gguf`'s business."""
    size = output_size(weights, dtype)
    if conversion(weights, dtype) == "copy":
        with reporter.task("copying weights", size, "bytes") as advance:
            return Written("copied", _copy(folder / SINGLE, target, advance))
    entries = _entries(weights, dtype)
    with reporter.task("converting weights", size, "bytes") as advance, _reader(folder, weights) as reader:
        return Written("converted", write_safetensors(target, entries, reader, advance))


def _entries(weights: Weights, dtype: str) -> list[Entry]:
    return [Entry(tensor.name, _target(tensor, dtype), tensor.shape) for tensor in weights.tensors]


def _target(tensor: Tensor, dtype: str) -> str:
    if tensor.dtype not in _FLOATS:
        if tensor.dtype.startswith(("F", "U")) and tensor.dtype != "U8":
            raise BuildError(
                f"tensor {tensor.name} has type {tensor.dtype}, which the torch runtime cannot compute with"
            )
        return tensor.dtype
    if dtype != "auto":
        return _NAMES[dtype]
    return "F32" if tensor.dtype == "F64" else tensor.dtype


def _copy(source: Path, target: Path, advance: Advance) -> str:
    digest = hashlib.sha256()
    with source.open("rb") as reading, target.open("wb") as writing:
        while block := reading.read(_BLOCK):
            writing.write(block)
            digest.update(block)
            advance(len(block))
        writing.flush()
        os.fsync(writing.fileno())
    return digest.hexdigest()


@contextlib.contextmanager
def _reader(folder: Path, weights: Weights) -> Iterator[Any]:
    import torch
    from safetensors import safe_open

    kinds = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
    places = {tensor.name: tensor.file for tensor in weights.tensors}
    with contextlib.ExitStack() as stack:
        files = {name: stack.enter_context(safe_open(folder / name, framework="pt")) for name in weights.files}

        def read(entry: Entry) -> torch.Tensor:
            tensor: torch.Tensor = files[places[entry.name]].get_tensor(entry.name)
            kind = kinds.get(entry.dtype)
            return tensor if kind is None or tensor.dtype == kind else _cast(entry, tensor, kind)

        yield read


def _cast(entry: Entry, tensor: Any, kind: Any) -> Any:
    import torch

    cast = tensor.to(kind)
    if bool(torch.isinf(cast).any()) and not bool(torch.isinf(tensor).any()):
        largest = float(tensor.abs().max())
        raise BuildError(
            f"tensor {entry.name} has values up to {largest:.3g}, too large for {kind}", fix="write dtype: bfloat16"
        )
    return cast
