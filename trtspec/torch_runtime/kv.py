"""Keys and values of sequences, in buffers that grow geometrically and are never copied per step.

A sequence lies in a slot of a tensor that many share (`pool`), where it can be attended together with its neighbours,
or in a tensor of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["BLOCK", "KVShape", "SequenceKV", "Slot", "padded", "steady"]

BLOCK = 64  # attention reads whole blocks, so that its arithmetic does not depend on the exact length
_TILE = 512  # positions that the flash kernel takes at a time
_UNSTEADY = frozenset({256, 320})  # in the last tile: MKL halves the sum over them, longer ones it cuts at 192


def padded(length: int) -> int:
    """`length` rounded up to whole blocks."""
    return -(-length // BLOCK) * BLOCK


def steady(length: int) -> int:
    """`padded`, but never a length over which the kernel adds up in another order than over a longer one.

    Found by comparing bits (MKL 2024.2 on an AMD EPYC): lengths of 256 and 320 positions beyond whole tiles.
    """
    whole = padded(length)
    return whole - whole % _TILE + 384 if whole % _TILE in _UNSTEADY else whole


@dataclass(frozen=True)
class KVShape:
    """What one token's keys and values look like."""

    layers: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype = torch.float32
    device: torch.device = torch.device("cpu")  # noqa: RUF009 - immutable

    @property
    def token_bytes(self) -> int:
        """Bytes of one token's keys and values."""
        return self.layers * 2 * self.kv_heads * self.head_dim * self.dtype.itemsize


@dataclass(frozen=True, eq=False)
class Slot:
    """A place for one sequence in `whole` [layers, 2, slots, kv_heads, positions, head_dim]."""

    whole: Tensor
    index: int

    @property
    def positions(self) -> int:
        """The longest sequence that it has room for."""
        return self.whole.shape[4]

    def view(self, capacity: int) -> Tensor:
        """Its first `capacity` positions: [layers, 2, kv_heads, capacity, head_dim]."""
        return self.whole[:, :, self.index, :, :capacity]


class SequenceKV:
    """Keys and values [layers, 2, kv_heads, capacity, head_dim] of one sequence; `length` tokens are valid.

    Everything behind `length` is finite, so that masked positions may be read. `limit` is the length that the sequence
    is expected to have in the end: buffers grow to that and not beyond, unless it turns out to be longer.
    `idle_since` is the pass after which its request ended; None while it runs.
    """

    def __init__(
        self, shape: KVShape, capacity: int = BLOCK, limit: int | None = None, slot: Slot | None = None
    ) -> None:
        self.shape = shape
        self.length = 0
        self.limit = limit
        self.idle_since: int | None = None
        self.slot = slot
        self.data = self._room(padded(capacity), slot)

    @property
    def capacity(self) -> int:
        """Tokens that fit without growing."""
        return self.data.shape[3]

    def reserve(self, length: int) -> None:
        """Make room for `length` tokens in total."""
        if length <= self.capacity:
            return
        wanted = 2 * self.capacity if self.limit is None else min(2 * self.capacity, self.limit)
        capacity = padded(max(length, wanted))
        if self.slot is not None and length <= self.slot.positions:
            self.data = self.slot.view(min(capacity, self.slot.positions))
        else:
            self.move(capacity)

    def truncate(self, length: int) -> None:
        """Forget all tokens behind the first `length`."""
        assert 0 <= length <= self.length
        self.length = length

    def move(self, capacity: int, slot: Slot | None = None) -> None:
        """Copy everything to `slot`, or to a tensor of its own, with room for `capacity` tokens."""
        moved = self._room(padded(capacity), slot)
        moved[:, :, :, : self.length] = self.data[:, :, :, : self.length]
        self.data, self.slot = moved, slot

    def copy_to(self, other: SequenceKV, length: int) -> SequenceKV:
        """`other`, which then begins with this one's first `length` tokens and nothing else."""
        other.reserve(length)
        other.data[:, :, :, :length] = self.data[:, :, :, :length]
        other.length = length
        return other

    def _room(self, capacity: int, slot: Slot | None) -> Tensor:
        return self._zeros(capacity) if slot is None else slot.view(capacity)

    def _zeros(self, capacity: int) -> Tensor:
        shape = self.shape
        size = (shape.layers, 2, shape.kv_heads, capacity, shape.head_dim)
        return torch.zeros(size, dtype=shape.dtype, device=shape.device)
