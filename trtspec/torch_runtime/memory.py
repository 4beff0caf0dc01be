"""Memory for keys and values: what running requests may come to need, what is kept for reuse, and the bound on both."""

from __future__ import annotations

from dataclasses import dataclass

from trtspec.torch_runtime.cache import PrefixCache
from trtspec.torch_runtime.kv import KVShape, SequenceKV, padded
from trtspec.torch_runtime.pool import KVPool

__all__ = ["KvMemory", "MemoryUse"]


@dataclass(frozen=True)
class MemoryUse:
    """Tokens whose keys and values are in memory, `token_bytes` each.

    running: what the running requests hold or may still come to need. kept: of finished sequences, free for whoever
    needs it. limit: both together never exceed it.
    """

    running: int
    kept: int
    limit: int
    token_bytes: int

    @property
    def usage(self) -> float:
        """The share of the limit that running requests and kept sequences take."""
        return (self.running + self.kept) / self.limit


class KvMemory:
    """Lends buffers to running requests and keeps those of finished ones while there is room.

    A request reserves its longest possible sequence when it starts, so that it is never stopped half way for want of
    memory; kept sequences give way to it, least recently used first. Running ones lie in `pool`, if there is one.
    """

    def __init__(self, shape: KVShape, limit: int, *, slack: int, share: int, pool: KVPool | None = None) -> None:
        self._shape = shape
        self._limit = limit
        self._share = share
        self._pool = pool
        self._passes = 0
        self._cache = PrefixCache(limit, slack=slack, new=self._new)
        self._reserved: dict[SequenceKV, int] = {}

    @property
    def use(self) -> MemoryUse:
        """What is taken now."""
        return MemoryUse(sum(self._reserved.values()), self._cache.tokens, self._limit, self._shape.token_bytes)

    def count_pass(self) -> None:
        """A pass begins: the clock by which a kept sequence's age is told."""
        self._passes += 1

    def fits(self, length: int) -> bool:
        """Whether a sequence of up to `length` tokens fits beside the running ones."""
        return padded(length) <= self._free

    def lend(self, prompt: list[int], length: int) -> SequenceKV:
        """Keys and values for a request of up to `length` tokens that `fits`; those of a known prefix are in it.

        Where there is memory it may grow to twice that within a place's share: the next round of the same answer then
        goes on in the same buffer.
        """
        kv = self._cache.take(prompt)
        known = 0 if kv is None else kv.capacity
        generous = padded(max(length, min(2 * length, self._share)))
        room = max(known, generous if generous <= self._free else padded(length))
        self._cache.shrink(self._free - room)
        if kv is None:
            kv = self._new(min(len(prompt) + 64, room))
        elif kv.slot is None and self._pool is not None:
            self._pool.bring_in(kv, self._passes)
        kv.limit, kv.idle_since = room, None
        self._reserved[kv] = room
        return kv

    def give_back(self, kv: SequenceKV, tokens: list[int]) -> None:
        """The request with the sequence `tokens` has ended, or is broken off; nothing of it is reserved any more."""
        del self._reserved[kv]
        kv.idle_since = self._passes
        self._cache.put(tokens, kv)
        self._cache.shrink(self._free)

    def discard(self, kv: SequenceKV) -> None:
        """The same for a sequence whose content is not to be trusted."""
        del self._reserved[kv]

    def _new(self, capacity: int) -> SequenceKV:
        if self._pool is None:
            return SequenceKV(self._shape, capacity)
        return self._pool.new(capacity, self._passes)

    @property
    def _free(self) -> int:
        return self._limit - sum(self._reserved.values())
