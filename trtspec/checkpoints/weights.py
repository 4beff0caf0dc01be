"""The tensors of a checkpoint without their data: safetensors, indexed shards, or a GGUF."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from trtspec.checkpoints.reading import REFETCH
from trtspec.checkpoints.tensor_classes import CLASSES, EMBEDDINGS, TensorClass, tensor_class
from trtspec.checkpoints.tensors import Tensor, read_safetensors_header
from trtspec.checkpoints.weight_files import (
    INDEX,
    SINGLE,
    WeightFiles,
    WeightIndex,
    find_weights,
    only_gguf,
    read_weight_index,
)
from trtspec.errors import CheckpointError

__all__ = [
    "INDEX",
    "SINGLE",
    "WeightFiles",
    "WeightIndex",
    "Weights",
    "find_weights",
    "only_gguf",
    "read_weight_index",
    "read_weights",
]

_MANY = 8


@dataclass(frozen=True)
class Weights:
    """All tensors of a checkpoint without their data.

    `unindexed` lie in a shard but the index does not list them (there); `duplicates` are those of them that another
    shard holds as well. `stated_size` is the index's total of bytes, None without one.
    """

    format: Literal["safetensors", "gguf"]
    files: tuple[str, ...]
    tensors: tuple[Tensor, ...] = field(repr=False)
    extra: tuple[str, ...] = ()
    unindexed: tuple[str, ...] = ()
    duplicates: tuple[str, ...] = ()
    stated_size: int | None = None

    @cached_property
    def parameters(self) -> int:
        """Number of elements over all tensors (for packed quantised weights: of packed elements)."""
        return sum(tensor.count for tensor in self.tensors)

    @cached_property
    def size(self) -> int:
        """Bytes of tensor data."""
        return sum(tensor.size for tensor in self.tensors)

    @cached_property
    def bytes_by_dtype(self) -> dict[str, int]:
        """Type as the files spell it → bytes, the largest first."""
        sizes: Counter[str] = Counter()
        for tensor in self.tensors:
            sizes[tensor.dtype] += tensor.size
        return dict(sizes.most_common())

    @cached_property
    def bytes_by_class(self) -> dict[TensorClass, int]:
        """Part of the model (embedding, head, attention, mlp, experts, norms, other) → bytes; all of them are there."""
        sizes = dict.fromkeys(CLASSES, 0)
        for tensor in self.tensors:
            sizes[tensor_class(tensor.name)] += tensor.size
        return sizes

    @cached_property
    def embedding(self) -> Tensor | None:
        """The input embedding, rows first; None when no tensor has a known name for it."""
        return next((t for t in self.tensors if t.name.endswith(EMBEDDINGS) and len(t.shape) == 2), None)

    @cached_property
    def head(self) -> Tensor | None:
        """The output head; None when the checkpoint carries none (tied to the embedding)."""
        return next((tensor for tensor in self.tensors if tensor_class(tensor.name) == "head"), None)


def read_weights(folder: Path, names: Iterable[str]) -> Weights:
    """The tensors of a checkpoint folder whose files are `names`; CheckpointError for missing or damaged files."""
    found = find_weights(folder, list(names))
    if found.format == "gguf":
        from trtspec.checkpoints.gguf_file import read_gguf

        return Weights("gguf", found.files, read_gguf(folder / found.files[0]).tensors, found.extra)
    per_file = _headers(folder, found.files)
    if found.index is None:
        return Weights("safetensors", found.files, tuple(per_file[SINGLE]), found.extra)
    return _indexed(folder, found, found.index, per_file)


def _headers(folder: Path, files: tuple[str, ...]) -> dict[str, list[Tensor]]:
    """File → its tensors; many files at once, because each costs some round trips where the disk is a network's."""
    if len(files) < _MANY:
        return {name: read_safetensors_header(folder / name) for name in files}
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_MANY) as pool:
        return dict(zip(files, pool.map(lambda name: read_safetensors_header(folder / name), files), strict=True))


def _indexed(
    folder: Path, found: WeightFiles, index: Mapping[str, str], per_file: Mapping[str, list[Tensor]]
) -> Weights:
    held = {file: {tensor.name for tensor in tensors} for file, tensors in per_file.items()}
    lost = [(name, file) for name, file in index.items() if name not in held[file]]
    if lost:
        message = f"{len(lost)} of {len(index)} tensors are not in the shard that {INDEX} names, e.g. {lost[0][0]!r}"
        where = str(folder / lost[0][1])
        raise CheckpointError(f"{message} in {lost[0][1]}", where=where, fix=REFETCH, code="index-mismatch")
    everything = [tensor for tensors in per_file.values() for tensor in tensors]
    used = tuple(tensor for tensor in everything if index.get(tensor.name) == tensor.file)
    left = [tensor for tensor in everything if index.get(tensor.name) != tensor.file]
    return Weights(
        "safetensors",
        found.files,
        used,
        found.extra,
        unindexed=tuple(f"{tensor.name} ({tensor.file})" for tensor in left),
        duplicates=tuple(tensor.name for tensor in left if tensor.name in index),
        stated_size=found.total_size,
    )
