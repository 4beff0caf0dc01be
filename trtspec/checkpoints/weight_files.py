"""Which files of a checkpoint are its weights, and what an index says of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from trtspec.checkpoints.reading import REFETCH, read_document, refetch
from trtspec.checkpoints.tensor_classes import is_head
from trtspec.errors import CheckpointError

__all__ = ["INDEX", "SINGLE", "WeightFiles", "WeightIndex", "find_weights", "only_gguf", "read_weight_index"]

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_PICKLED = (".bin", ".pt", ".pth", ".ckpt")
_WEIGHT_SUFFIXES = (".safetensors", ".gguf", *_PICKLED)
_MOST_BYTES = 1 << 62  # an index that states more (or NaN, infinity) states nothing
_SHARD = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<total>\d{5})\.(safetensors|gguf)$")
_CONVERT = (
    'convert it once: python -c "from transformers import AutoModelForCausalLM as M; '
    "M.from_pretrained('{folder}').save_pretrained('{folder}-safetensors')\" and copy the tokenizer files"
)


@dataclass(frozen=True)
class WeightFiles:
    """The files to read: format, names in order, the index's tensor → file map, and weight files left aside.

    `total_size` are the bytes of all tensors as the index states them.
    """

    format: Literal["safetensors", "gguf"]
    files: tuple[str, ...]
    index: Mapping[str, str] | None
    extra: tuple[str, ...]
    total_size: int | None = None


@dataclass(frozen=True)
class WeightIndex:
    """What an index says of weights whose shards are not all there: tensor names and files, no shapes.

    `missing` are the files that are not there (a link to nothing counts as missing), `total_size` the bytes of all
    tensors, None where the index does not give it.
    """

    files: tuple[str, ...]
    missing: tuple[str, ...]
    total_size: int | None
    names: tuple[str, ...] = field(repr=False)

    @property
    def complete(self) -> bool:
        """True when every shard is there."""
        return not self.missing

    @cached_property
    def has_head(self) -> bool:
        """True when an output head is listed."""
        return any(is_head(name) for name in self.names)


def find_weights(folder: Path, names: Iterable[str]) -> WeightFiles:
    """Choose the weight files as transformers does; CheckpointError when there are none that can be used."""
    present = [name for name in names if name.endswith(_WEIGHT_SUFFIXES)]
    if SINGLE in present:
        return _chosen("safetensors", (SINGLE,), None, present)
    if INDEX in names:
        index, total = _read_index(folder / INDEX)
        files = tuple(sorted(set(index.values())))
        _check_shards(folder, files, present)
        return replace(_chosen("safetensors", files, index, present), total_size=total)
    return _without_safetensors(folder, present)


def read_weight_index(folder: Path, names: Iterable[str]) -> WeightIndex | None:
    """What the index says, whether its shards are there or not; None without one that can be read."""
    listed = list(names)
    if INDEX not in listed or SINGLE in listed:
        return None
    try:
        index, total = _read_index(folder / INDEX)
    except CheckpointError:
        return None
    files = tuple(sorted(set(index.values())))
    return WeightIndex(files, _missing(folder, files, listed), total, tuple(index))


def only_gguf(names: Iterable[str]) -> str | None:
    """The GGUF file that is a folder's model: the only one (projectors aside), without safetensors weights."""
    listed = list(names)
    found = [name for name in listed if name.endswith(".gguf") and not name.startswith("mmproj")]
    return found[0] if len(found) == 1 and SINGLE not in listed and INDEX not in listed else None


def _chosen(
    kind: Literal["safetensors", "gguf"], files: tuple[str, ...], index: Mapping[str, str] | None, present: list[str]
) -> WeightFiles:
    return WeightFiles(kind, files, index, tuple(name for name in present if name not in files))


def _read_index(path: Path) -> tuple[dict[str, str], int | None]:
    """Tensor → file, and the bytes of all tensors where they are given."""
    document = read_document(path)
    weight_map = document.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(
            "has no weight_map of tensor name to file", where=str(path), fix=REFETCH, code="malformed"
        )
    good: set[str] = set()
    for name, file in weight_map.items():
        if isinstance(file, str) and file in good:
            continue
        if not isinstance(file, str) or Path(file).name != file or not file:
            message = f"names {file!r} for tensor {name!r}, a file in the same folder is expected"
            raise CheckpointError(message, where=str(path), fix=REFETCH, code="malformed")
        good.add(file)
    metadata = document.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if not isinstance(total, (int, float)) or isinstance(total, bool) or not 0 <= total < _MOST_BYTES:
        return weight_map, None
    return weight_map, int(total)


def _check_shards(folder: Path, files: tuple[str, ...], present: list[str]) -> None:
    missing = _missing(folder, files, present)
    if missing:
        shown = ", ".join(missing[:3]) + (" …" if len(missing) > 3 else "")
        links = any((folder / name).is_symlink() for name in missing)
        why = " (each a link to a file that is not there: an interrupted download)" if links else ""
        message = f"{len(missing)} of {len(files)} shards named by {INDEX} are missing{why}: {shown}"
        if len(missing) == len(files) and not links:
            message = f"the weights are not here, all {len(files)} files that {INDEX} names"
        raise CheckpointError(message, where=str(folder), fix=refetch(folder), code="shards-missing")


def _missing(folder: Path, files: tuple[str, ...], present: Iterable[str]) -> tuple[str, ...]:
    """Those files that are not there; a hub cache's link to a blob that was never fetched is not."""
    there = set(present)
    return tuple(name for name in files if name not in there or not (folder / name).exists())


def _without_safetensors(folder: Path, present: list[str]) -> WeightFiles:
    where = str(folder)
    ggufs = [name for name in present if name.endswith(".gguf") and not name.startswith("mmproj")]
    others = [name for name in present if name.endswith(".safetensors")]
    pickled = [name for name in present if name.endswith(_PICKLED)]
    if others:
        code = "no-index" if any(map(_SHARD.match, others)) else "no-weights"
        raise CheckpointError(_odd_safetensors(others), where=where, fix=_odd_fix(folder, others), code=code)
    if len(ggufs) > 1:
        message = f"{len(ggufs)} GGUF files, one is expected: {', '.join(ggufs[:4])}"
        raise CheckpointError(message, where=where, fix="keep one of them in a folder of its own", code="several-gguf")
    if ggufs and _SHARD.match(ggufs[0]):
        fix = f"merge it: llama-gguf-split --merge {ggufs[0]} model.gguf"
        raise CheckpointError(f"{ggufs[0]} is one part of a split GGUF", where=where, fix=fix, code="split-gguf")
    if ggufs:
        return _chosen("gguf", (ggufs[0],), None, present)
    if pickled:
        message = f"only pickled weights ({', '.join(pickled[:3])}); trtspec loads safetensors, which cannot run code"
        raise CheckpointError(message, where=where, fix=_CONVERT.format(folder=folder), code="pickled")
    message = f"no weights: neither {SINGLE} nor {INDEX} nor a GGUF file"
    raise CheckpointError(message, where=where, fix=refetch(folder), code="no-weights")


def _odd_safetensors(names: list[str]) -> str:
    shards = [match for match in map(_SHARD.match, names) if match]
    if shards:
        return f"{len(shards)} of {int(shards[0]['total'])} shards but no {INDEX}"
    return f"weights are in {', '.join(names[:3])}, loaders look for {SINGLE} or {INDEX}"


def _odd_fix(folder: Path, names: list[str]) -> str:
    if len(names) == 1 and not _SHARD.match(names[0]) and not names[0].startswith("consolidated"):
        return f"mv {folder / names[0]} {folder / SINGLE}"
    return REFETCH
