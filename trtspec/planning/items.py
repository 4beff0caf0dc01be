"""What a memory plan is made of: items with their formula, GPUs, caches, limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trtspec.spec.names import Arm, Role

__all__ = ["ArmMemory", "GpuMemory", "Item", "Kind", "KvCache", "Limits", "SequenceRoom"]

Kind = Literal["weights", "kv_cache", "activations", "decoder_buffers", "runtime"]


@dataclass(frozen=True)
class Item:
    """Memory that one thing takes: whose it is (a role, or "server"), bytes, and the formula with its numbers.

    `estimate` where the true figure depends on what a compiler or a library decides.
    """

    role: str
    kind: Kind
    name: str
    bytes: int
    formula: str
    estimate: bool = False

    def to_json(self) -> dict[str, Any]:
        """The item as `plan --output json` prints it."""
        return {
            "role": self.role,
            "kind": self.kind,
            "name": self.name,
            "bytes": self.bytes,
            "formula": self.formula,
            "estimate": self.estimate,
        }


@dataclass(frozen=True)
class GpuMemory:
    """One GPU (or, for the torch runtime without one, the system's memory) and what lies on it.

    `total` is None for a GPU that is not known. `gpu` is its number, "cpu" for system memory.
    """

    gpu: int | str
    name: str
    total: int | None
    items: tuple[Item, ...]

    @property
    def used(self) -> int:
        """Bytes of all items."""
        return sum(item.bytes for item in self.items)

    @property
    def fixed(self) -> int:
        """Bytes of everything but keys and values."""
        return sum(item.bytes for item in self.items if item.kind != "kv_cache")

    @property
    def free(self) -> int | None:
        """Bytes left; negative when the items do not fit; None for a GPU of unknown size."""
        return None if self.total is None else self.total - self.used

    def of(self, role: str, kind: Kind | None = None) -> int:
        """Bytes of a role, of one kind or of all."""
        return sum(item.bytes for item in self.items if item.role == role and kind in (None, item.kind))

    def to_json(self) -> dict[str, Any]:
        """The GPU as `plan --output json` prints it."""
        return {
            "gpu": self.gpu,
            "name": self.name,
            "total_bytes": self.total,
            "items": [item.to_json() for item in self.items],
            "free_bytes": self.free,
        }


@dataclass(frozen=True)
class KvCache:
    """Keys and values of a role.

    `max_tokens` is the cap to configure (max_tokens_in_paged_kv_cache); `fraction` the free_gpu_mem_fraction that
    gives as much in the planned load order, `fraction_any_order` in any. None: the GPU is not known, or (fractions)
    the runtime has none.
    """

    role: Role
    bytes_per_token: int
    formula: str
    max_tokens: int | None
    fraction: float | None
    fraction_any_order: float | None
    free_at_load: int | None = None

    @property
    def bytes(self) -> int | None:
        """Bytes of the whole cache on the GPU that holds most of it."""
        return None if self.max_tokens is None else self.max_tokens * self.bytes_per_token

    def to_json(self) -> dict[str, Any]:
        """The cache as `plan --output json` prints it."""
        return {
            "bytes_per_token": self.bytes_per_token,
            "formula": self.formula,
            "max_tokens": self.max_tokens,
            "free_gpu_mem_fraction": self.fraction,
            "free_gpu_mem_fraction_any_order": self.fraction_any_order,
            "free_at_load_bytes": self.free_at_load,
        }


@dataclass(frozen=True)
class SequenceRoom:
    """How many sequences of `tokens` tokens fit at a time: by the KV caches alone, and with max_batch_size."""

    what: Literal["expected", "longest"]
    tokens: int
    kv_bytes: int
    by_memory: int | None
    at_once: int | None

    def to_json(self) -> dict[str, Any]:
        """The row as `plan --output json` prints it."""
        return {
            "what": self.what,
            "tokens": self.tokens,
            "kv_bytes": self.kv_bytes,
            "fit": self.by_memory,
            "at_once": self.at_once,
        }


@dataclass(frozen=True)
class Limits:
    """What requests an arm can take; None where the GPU is not known.

    `max_prompt_tokens`: the longest prompt that every server of these engines takes, with one token of an answer: in
    one pass of max_num_tokens. `max_prompt_tokens_chunked`: that of a server with chunked context, which `trtspec repo`
    switches on; `max_prompt_with_answer`: the longest there that leaves room for the expected answer.
    """

    max_prompt_tokens: int | None
    max_prompt_tokens_chunked: int | None
    max_prompt_with_answer: int | None
    max_concurrent_sequences: int | None
    rooms: tuple[SequenceRoom, ...]

    def to_json(self) -> dict[str, Any]:
        """The limits as `plan --output json` prints them."""
        return {
            "max_prompt_tokens": self.max_prompt_tokens,
            "max_prompt_tokens_chunked": self.max_prompt_tokens_chunked,
            "max_prompt_with_answer": self.max_prompt_with_answer,
            "max_concurrent_sequences": self.max_concurrent_sequences,
            "sequences": [room.to_json() for room in self.rooms],
        }


@dataclass(frozen=True)
class ArmMemory:
    """The memory of one arm.

    `fits` is None for GPUs of unknown size. `short` are the bytes missing on the GPU where most are.
    """

    arm: Arm
    per_gpu: tuple[GpuMemory, ...]
    kv_cache: Mapping[Role, KvCache]
    limits: Limits
    load_order: tuple[Role, ...]
    fits: bool | None
    short: int = 0

    @property
    def tightest(self) -> GpuMemory:
        """The GPU with the least memory beside its fixed items."""
        return max(self.per_gpu, key=lambda gpu: gpu.fixed - (gpu.total or 0))

    def to_json(self) -> dict[str, Any]:
        """The arm as `plan --output json` prints it."""
        return {
            "per_gpu": [gpu.to_json() for gpu in self.per_gpu],
            "kv_cache": {role: cache.to_json() for role, cache in self.kv_cache.items()},
            "load_order": list(self.load_order),
            "fits": self.fits,
            "short_bytes": self.short,
        }
