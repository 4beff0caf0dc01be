"""Keys and values of sequences, in buffers that grow geometrically and are never copied per step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["BLOCK", "KVShape", "SequenceKV", "padded"]

BLOCK = 64  # attention reads whole blocks, so that its arithmetic does not depend on the exact length


def padded(length: int) -> int:
    """`length` rounded up to whole blocks."""
    return -(-length // BLOCK) * BLOCK


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


class SequenceKV:
    """Keys and values [layers, 2, kv_heads, capacity, head_dim] of one sequence; `length` tokens are valid.

    Everything behind `length` is finite, so that masked positions may be read. `limit` is the length that the sequence
    is expected to have in the end: buffers grow to that and not beyond, unless it turns out to be longer.
    """

    def __init__(self, shape: KVShape, capacity: int = BLOCK, limit: int | None = None) -> None:
        self.shape = shape
        self.length = 0
        self.limit = limit
        self.data = self._zeros(padded(capacity))

    @property
    def capacity(self) -> int:
        """Tokens that fit without growing."""
        return self.data.shape[3]

    def reserve(self, length: int) -> None:
        """Make room for `length` tokens in total."""
        if length <= self.capacity:
            return
        wanted = 2 * self.capacity if self.limit is None else min(2 * self.capacity, self.limit)
        grown = self._zeros(padded(max(length, wanted)))
        grown[:, :, :, : self.length] = self.data[:, :, :, : self.length]
        self.data = grown

    def truncate(self, length: int) -> None:
        """Forget all tokens behind the first `length`."""
        assert 0 <= length <= self.length
        self.length = length

    def copy_prefix(self, length: int) -> SequenceKV:
        """A new sequence that starts with this one's first `length` tokens."""
        other = SequenceKV(self.shape, length + BLOCK)
        other.data[:, :, :, :length] = self.data[:, :, :, :length]
        other.length = length
        return other

    def _zeros(self, capacity: int) -> Tensor:
        shape = self.shape
        size = (shape.layers, 2, shape.kv_heads, capacity, shape.head_dim)
        return torch.zeros(size, dtype=shape.dtype, device=shape.device)
