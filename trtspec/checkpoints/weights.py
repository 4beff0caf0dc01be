"""Which files of a checkpoint are its weights, and the tensors in them: safetensors, indexed shards, or a GGUF."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from trtspec.checkpoints.reading import REFETCH, read_document
from trtspec.checkpoints.tensors import Tensor, read_safetensors_header
from trtspec.errors import CheckpointError

__all__ = ["INDEX", "SINGLE", "WeightFiles", "Weights", "find_weights", "only_gguf", "read_weights"]

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_PICKLED = (".bin", ".pt", ".pth", ".ckpt")
_WEIGHT_SUFFIXES = (".safetensors", ".gguf", *_PICKLED)
_SHARD = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<total>\d{5})\.(safetensors|gguf)$")
_CONVERT = (
    'convert it once: python -c "from transformers import AutoModelForCausalLM as M; '
    "M.from_pretrained('{folder}').save_pretrained('{folder}-safetensors')\" and copy the tokenizer files"
)
_EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "word_embeddings.weight", "embed_in.weight",
               "tok_embeddings.weight", "token_embd.weight", "embedding.weight")  # fmt: skip
_HEADS = ("lm_head.", "embed_out.", "output.weight", "output_layer.", "head.weight")


@dataclass(frozen=True)
class WeightFiles:
    """The files to read: format, names in order, the index's tensor → file map, and weight files left aside."""

    format: Literal["safetensors", "gguf"]
    files: tuple[str, ...]
    index: Mapping[str, str] | None
    extra: tuple[str, ...]


@dataclass(frozen=True)
class Weights:
    """All tensors of a checkpoint without their data; `unindexed` lie in a shard but the index does not list them."""

    format: Literal["safetensors", "gguf"]
    files: tuple[str, ...]
    tensors: tuple[Tensor, ...] = field(repr=False)
    extra: tuple[str, ...] = ()
    unindexed: tuple[str, ...] = ()

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
    def embedding(self) -> Tensor | None:
        """The input embedding, rows first; None when no tensor has a known name for it."""
        return next((t for t in self.tensors if t.name.endswith(_EMBEDDINGS) and len(t.shape) == 2), None)

    @cached_property
    def head(self) -> Tensor | None:
        """The output head; None when the checkpoint carries none (tied to the embedding)."""
        found = (t for t in self.tensors if any(_is_head(t.name, head) for head in _HEADS))
        return next(found, None)


def _is_head(name: str, head: str) -> bool:
    """True when `name` is the tensor `head` at the top or one level below (`transformer.output_layer.weight`)."""
    return any(part.startswith(head) for part in (name, name.partition(".")[2]))


def find_weights(folder: Path, names: Iterable[str]) -> WeightFiles:
    """Choose the weight files as transformers does; CheckpointError when there are none that can be used."""
    present = [name for name in names if name.endswith(_WEIGHT_SUFFIXES)]
    if SINGLE in present:
        return _chosen("safetensors", (SINGLE,), None, present)
    if INDEX in names:
        index = _read_index(folder / INDEX)
        files = tuple(dict.fromkeys(sorted(index.values())))
        _check_shards(folder, files, present)
        return _chosen("safetensors", files, index, present)
    return _without_safetensors(folder, present)


def only_gguf(names: Iterable[str]) -> str | None:
    """The GGUF file that is a folder's model: the only one (projectors aside), without safetensors weights."""
    listed = list(names)
    found = [name for name in listed if name.endswith(".gguf") and not name.startswith("mmproj")]
    return found[0] if len(found) == 1 and SINGLE not in listed and INDEX not in listed else None


def _chosen(
    kind: Literal["safetensors", "gguf"], files: tuple[str, ...], index: Mapping[str, str] | None, present: list[str]
) -> WeightFiles:
    return WeightFiles(kind, files, index, tuple(name for name in present if name not in files))


def _read_index(path: Path) -> dict[str, str]:
    weight_map = read_document(path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError("has no weight_map of tensor name to file", where=str(path), fix=REFETCH)
    for name, file in weight_map.items():
        if not isinstance(file, str) or Path(file).name != file or not file:
            message = f"names {file!r} for tensor {name!r}, a file in the same folder is expected"
            raise CheckpointError(message, where=str(path), fix=REFETCH)
    return weight_map


def _check_shards(folder: Path, files: tuple[str, ...], present: list[str]) -> None:
    missing = [name for name in files if name not in present]
    if missing:
        shown = ", ".join(missing[:3]) + (" …" if len(missing) > 3 else "")
        message = f"{len(missing)} of {len(files)} shards named by {INDEX} are missing: {shown}"
        raise CheckpointError(message, where=str(folder), fix=REFETCH)


def _without_safetensors(folder: Path, present: list[str]) -> WeightFiles:
    where = str(folder)
    ggufs = [name for name in present if name.endswith(".gguf") and not name.startswith("mmproj")]
    others = [name for name in present if name.endswith(".safetensors")]
    pickled = [name for name in present if name.endswith(_PICKLED)]
    if others:
        raise CheckpointError(_odd_safetensors(others), where=where, fix=_odd_fix(folder, others))
    if len(ggufs) > 1:
        message = f"{len(ggufs)} GGUF files, one is expected: {', '.join(ggufs[:4])}"
        raise CheckpointError(message, where=where, fix="keep one of them in a folder of its own")
    if ggufs and _SHARD.match(ggufs[0]):
        fix = f"merge it: llama-gguf-split --merge {ggufs[0]} model.gguf"
        raise CheckpointError(f"{ggufs[0]} is one part of a split GGUF", where=where, fix=fix)
    if ggufs:
        return _chosen("gguf", (ggufs[0],), None, present)
    if pickled:
        message = f"only pickled weights ({', '.join(pickled[:3])}); trtspec loads safetensors, which cannot run code"
        raise CheckpointError(message, where=where, fix=_CONVERT.format(folder=folder))
    raise CheckpointError(f"no weights: neither {SINGLE} nor {INDEX} nor a GGUF file", where=where, fix=REFETCH)


def _odd_safetensors(names: list[str]) -> str:
    shards = [match for match in map(_SHARD.match, names) if match]
    if shards:
        return f"{len(shards)} of {int(shards[0]['total'])} shards but no {INDEX}"
    return f"weights are in {', '.join(names[:3])}, loaders look for {SINGLE} or {INDEX}"


def _odd_fix(folder: Path, names: list[str]) -> str:
    if len(names) == 1 and not _SHARD.match(names[0]) and not names[0].startswith("consolidated"):
        return f"mv {folder / names[0]} {folder / SINGLE}"
    return REFETCH


def read_weights(folder: Path, names: Iterable[str]) -> Weights:
    """The tensors of a checkpoint folder whose files are `names`; CheckpointError for missing or damaged files."""
    found = find_weights(folder, list(names))
    if found.format == "gguf":
        from trtspec.checkpoints.gguf_file import read_gguf

        return Weights("gguf", found.files, read_gguf(folder / found.files[0]).tensors, found.extra)
    per_file = {name: read_safetensors_header(folder / name) for name in found.files}
    if found.index is None:
        return Weights("safetensors", found.files, tuple(per_file[SINGLE]), found.extra)
    return _indexed(folder, found, found.index, per_file)


def _indexed(
    folder: Path, found: WeightFiles, index: Mapping[str, str], per_file: Mapping[str, list[Tensor]]
) -> Weights:
    held = {(tensor.name, file) for file, tensors in per_file.items() for tensor in tensors}
    lost = [(name, file) for name, file in index.items() if (name, file) not in held]
    if lost:
        message = f"{len(lost)} of {len(index)} tensors are not in the shard that {INDEX} names, e.g. {lost[0][0]!r}"
        raise CheckpointError(f"{message} in {lost[0][1]}", where=str(folder / lost[0][1]), fix=REFETCH)
    everything = [tensor for tensors in per_file.values() for tensor in tensors]
    used = tuple(tensor for tensor in everything if index.get(tensor.name) == tensor.file)
    unindexed = tuple(f"{t.name} ({t.file})" for t in everything if index.get(t.name) != t.file)
    return Weights("safetensors", found.files, used, found.extra, unindexed)
