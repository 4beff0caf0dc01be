"""Attention of one packed pass: rows of several sequences, each over its own keys and values.

The query heads of one key-value head are rows of the same matrix, so nothing is repeated. Rows are padded to whole
groups of four and lengths to whole blocks: the kernels then give a row the same bits whether it is computed alone or
beside others (measured on x86 with PyTorch's flash kernel), which keeps greedy answers equal with and without drafts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from trtspec.torch_runtime.kv import KVShape, SequenceKV, padded

__all__ = ["PackedAttention", "PackedBatch", "Segment"]

_ROW_GROUP = 4
_MAX_TOKENS = 256  # tokens per attention call: bounds the mask, which has one row a token and query head


@dataclass(frozen=True)
class Segment:
    """`rows` consecutive tokens of one sequence, the first at position `start`, in rows `first` … of the pass."""

    kv: SequenceKV
    start: int
    first: int
    rows: int


@dataclass(frozen=True)
class PackedBatch:
    """One forward pass: token ids and positions [T] of all segments, and the rows whose logits are wanted [n]."""

    tokens: Tensor
    positions: Tensor
    segments: tuple[Segment, ...]
    logit_rows: Tensor

    @staticmethod
    def build(
        parts: Sequence[tuple[SequenceKV, Sequence[int]]], wanted: Sequence[int], device: torch.device
    ) -> PackedBatch:
        """Pack new tokens behind each sequence's known ones; `wanted` counts each part's last rows with logits."""
        tokens: list[int] = []
        positions: list[int] = []
        segments: list[Segment] = []
        rows: list[int] = []
        for (kv, new), count in zip(parts, wanted, strict=True):
            kv.reserve(kv.length + len(new))
            segments.append(Segment(kv, kv.length, len(tokens), len(new)))
            tokens.extend(new)
            positions.extend(range(kv.length, kv.length + len(new)))
            rows.extend(range(len(tokens) - count, len(tokens)))
        as_tensor = [torch.tensor(values, dtype=torch.long, device=device) for values in (tokens, positions, rows)]
        return PackedBatch(as_tensor[0], as_tensor[1], tuple(segments), as_tensor[2])

    def commit(self) -> None:
        """Count the tokens of this pass as known to their sequences."""
        for segment in self.segments:
            segment.kv.length = segment.start + segment.rows


@dataclass
class _Block:
    """Up to `_MAX_TOKENS` rows of one segment."""

    first: int
    rows: int
    start: int
    keys: tuple[Tensor, ...]  # per layer [2, kv_heads, padded length, head_dim]
    queries: Tensor  # [kv_heads, padded rows, head_dim], reused by all layers
    masks: dict[int | None, Tensor] = field(default_factory=dict)


class PackedAttention:
    """Writes a pass's keys and values to its sequences and attends over them, layer by layer."""

    def __init__(self, batch: PackedBatch, shape: KVShape, heads: int) -> None:
        self._shape = shape
        self._heads = heads
        self._group = heads // shape.kv_heads
        self._targets = [
            (segment, segment.kv.data.narrow(3, segment.start, segment.rows).unbind(0)) for segment in batch.segments
        ]
        self._blocks = [block for segment in batch.segments for block in self._split(segment)]

    def attend(
        self, layer: int, query: Tensor, key_value: tuple[Tensor, Tensor], scale: float, window: int | None = None
    ) -> Tensor:
        """Attention [T, heads * head_dim] of `query` [T, heads, head_dim] after storing keys and values.

        Keys and values are [T, kv_heads, head_dim]. Rows of `query` beyond the segments (padding) give zeros. With
        `window`, a token sees itself and the `window` - 1 tokens before it.
        """
        key, value = key_value
        for segment, targets in self._targets:
            rows = slice(segment.first, segment.first + segment.rows)
            target = targets[layer]
            target[0].copy_(key[rows].transpose(0, 1))
            target[1].copy_(value[rows].transpose(0, 1))
        output = torch.zeros_like(query, memory_format=torch.contiguous_format)
        for block in self._blocks:
            self._attend_block(block, layer, query, output, (scale, window))
        return output.view(output.shape[0], -1)

    def _attend_block(
        self, block: _Block, layer: int, query: Tensor, output: Tensor, options: tuple[float, int | None]
    ) -> None:
        scale, window = options
        rows = slice(block.first, block.first + block.rows)
        inner = (block.rows, self._shape.kv_heads, self._group, self._shape.head_dim)
        outer = (self._shape.kv_heads, block.rows, self._group, self._shape.head_dim)
        count = block.rows * self._group
        block.queries[:, :count].view(outer).copy_(query[rows].view(inner).transpose(0, 1))
        keys, values = block.keys[layer].unbind(0)
        mask = block.masks.get(window)
        if mask is None:
            mask = block.masks[window] = self._mask(block, window)
        attended = scaled_dot_product_attention(
            block.queries[None], keys[None], values[None], attn_mask=mask, scale=scale
        )
        output[rows].view(inner).copy_(attended[0, :, :count].view(outer).transpose(0, 1))

    def _split(self, segment: Segment) -> list[_Block]:
        blocks = []
        for offset in range(0, segment.rows, _MAX_TOKENS):
            rows = min(_MAX_TOKENS, segment.rows - offset)
            start = segment.start + offset
            length = padded(start + rows)
            keys = segment.kv.data.narrow(3, 0, length).unbind(0)
            blocks.append(_Block(segment.first + offset, rows, start, keys, self._query_buffer(rows)))
        return blocks

    def _query_buffer(self, rows: int) -> Tensor:
        count = -(-rows * self._group // _ROW_GROUP) * _ROW_GROUP
        size = (self._shape.kv_heads, count, self._shape.head_dim)
        return torch.zeros(size, dtype=self._shape.dtype, device=self._shape.device)

    def _mask(self, block: _Block, window: int | None) -> Tensor:
        """Additive mask [1, 1, padded rows, padded length]; padding rows see position 0 like any other."""
        count, length = block.queries.shape[1], block.keys[0].shape[2]
        device = self._shape.device
        position = block.start + torch.arange(count, device=device)[:, None] // self._group
        column = torch.arange(length, device=device)[None, :]
        hidden = column > position
        if window is not None:
            hidden |= column <= position - window
        mask = torch.zeros((1, 1, count, length), dtype=self._shape.dtype, device=device)
        return mask.masked_fill_(hidden, -torch.inf)
