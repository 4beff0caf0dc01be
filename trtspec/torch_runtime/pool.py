"""Slots for sequences side by side in one tensor, so that one call can attend several of them.

The tensor is address space: memory is only there for what was written, and is given back when a slot is left.
"""

from __future__ import annotations

import contextlib
import mmap
import sys
import weakref

import torch
from torch import Tensor

from trtspec.torch_runtime.kv import KVShape, SequenceKV, Slot, steady

__all__ = ["KVPool"]

# Python names MAP_NORESERVE since 3.13 only; without it Linux refuses more address space than there is memory
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
_RECENT = 16  # passes within which a sequence that has ended is likely to be continued: the draft's turn of a round


class KVPool:
    """`slots` places for sequences of up to `positions` tokens, the first ones first: running sequences are neighbours.

    Ended sequences stay in their slots until a new one needs the place; they are then moved to tensors of their own,
    which costs less than a hundredth of computing them. To be used in inference mode only, as passes are.
    """

    def __init__(self, shape: KVShape, slots: int, positions: int) -> None:
        """OSError, ValueError or OverflowError where there is not as much address space."""
        self._shape = shape
        room = steady(positions)
        self._memory = _address_space(shape.token_bytes * room * slots)
        size = (shape.layers, 2, slots, shape.kv_heads, room, shape.head_dim)
        with torch.inference_mode():  # as passes are: nothing keeps count of its versions
            self._whole: Tensor = torch.frombuffer(self._memory, dtype=shape.dtype).view(size)
        self._holders: list[weakref.ref[SequenceKV] | None] = [None] * slots

    @staticmethod
    def create(shape: KVShape, slots: int, positions: int) -> KVPool | None:
        """A pool where keys and values are on a CPU and the system grants the address space."""
        if shape.device.type != "cpu":
            return None
        try:
            return KVPool(shape, slots, positions)
        except (OSError, ValueError, OverflowError):
            return None

    def new(self, capacity: int, now: int) -> SequenceKV:
        """An empty sequence with room for `capacity` tokens; `now` counts passes."""
        slot = self._vacant(now, _RECENT)
        kv = SequenceKV(self._shape, capacity, slot=slot)
        self._hold(slot, kv)
        return kv

    def bring_in(self, kv: SequenceKV, now: int) -> None:
        """Move a sequence with a tensor of its own into a slot; others move out for it only where none is free."""
        slot = self._vacant(now, now + 1)
        if slot is not None:
            kv.move(kv.capacity, slot)
            self._hold(slot, kv)

    def _hold(self, slot: Slot | None, kv: SequenceKV) -> None:
        if slot is not None:
            index = slot.index
            self._holders[index] = weakref.ref(kv, lambda holder: self._gone(holder, index))

    def _gone(self, holder: weakref.ref[SequenceKV], index: int) -> None:
        """A sequence is no more; told of one in a reference cycle, the slot may be another's by now."""
        if self._holders[index] is holder:
            self._leave(index)

    def _holder(self, index: int) -> SequenceKV | None:
        """The sequence that lies in the slot, which one that has outgrown it does not."""
        holder = self._holders[index]
        kv = None if holder is None else holder()
        return kv if kv is not None and kv.slot is not None and kv.slot.index == index else None

    def _vacant(self, now: int, recent: int) -> Slot | None:
        """The first slot that is free or whose sequence ended `recent` passes ago, else that of the one ended first."""
        ended: list[tuple[int, int, SequenceKV]] = []
        for index in range(len(self._holders)):
            kv = self._holder(index)
            if kv is None:
                return Slot(self._whole, index)
            if kv.idle_since is not None:
                ended.append((kv.idle_since, index, kv))
                if now - kv.idle_since >= recent:
                    return self._cleared(kv, index)
        if not ended:
            return None
        _, index, kv = min(ended, key=lambda one: one[:2])
        return self._cleared(kv, index)

    def _cleared(self, kv: SequenceKV, index: int) -> Slot:
        kv.move(kv.capacity)
        self._leave(index)
        return Slot(self._whole, index)

    def _leave(self, index: int) -> None:
        """Nobody is in the slot any more: give its memory back to the system (which makes it zeros)."""
        self._holders[index] = None
        advice = getattr(mmap, "MADV_DONTNEED", None)
        if advice is None:
            return
        step = self._whole.stride(2) * self._whole.element_size()
        for place in range(2 * self._shape.layers):
            begin = (place * len(self._holders) + index) * step
            first = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
            length = (begin + step) // mmap.PAGESIZE * mmap.PAGESIZE - first
            if length > 0:
                with contextlib.suppress(OSError):  # pages that are locked stay, which does no harm
                    self._memory.madvise(advice, first, length)


def _address_space(size: int) -> mmap.mmap:
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):  # else one token could take 2 MiB in each layer
        with contextlib.suppress(OSError):  # a kernel without huge pages does not know them
            memory.madvise(mmap.MADV_NOHUGEPAGE)
    return memory
