"""Attention of one packed pass: rows of several sequences, each over its own keys and values.

The query heads of one key-value head are rows of the same matrix, so nothing is repeated. Sequences with few rows that
lie in slots side by side (`pool`) are attended by one call, a long prompt by calls of its own. Rows are padded to whole
groups of four and lengths to whole blocks: the kernels then give a row the same bits whether it is computed alone or
beside others (measured on x86 with PyTorch's flash kernel; `kv.steady` says where the length shows), which keeps greedy
answers equal with and without drafts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from trtspec.torch_runtime.grouping import Segment, side_by_side, slot_of
from trtspec.torch_runtime.kv import KVShape, SequenceKV, padded, steady

__all__ = ["PackedAttention", "PackedBatch"]

_ROW_GROUP = 4
_MAX_TOKENS = 256  # tokens per attention call: bounds the mask, which has one row a token and query head


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


@dataclass(frozen=True)
class _Picked:
    """Which row of the pass each row of a block is, and which rows of its result belong where in the pass."""

    rows: Tensor
    sources: Tensor
    targets: Tensor


@dataclass
class _Block:
    """Rows that one call attends: up to `_MAX_TOKENS` of one sequence, or a few of each of several in nearby slots."""

    keys: tuple[Tensor, ...]  # keys and values of the layers in turn: [sequences, kv_heads, padded length, head_dim]
    queries: Tensor  # [sequences, kv_heads, padded rows, head_dim], reused by all layers
    starts: list[int]  # position of each sequence's first row
    rows: int  # of each sequence; the last ones of a sequence with fewer are padding
    first: int
    group: int  # query heads that share keys and values
    picked: _Picked | None = None  # None: all rows are used, in their order from `first` on
    masks: dict[int | None, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        sequences, kv_heads, _, size = self.queries.shape
        self.count = self.rows * self.group
        self.shape = (sequences, self.rows, kv_heads, self.group, size)
        self.inner = (sequences, kv_heads, self.rows, self.group, size)
        self.used = slice(self.first, self.first + sequences * self.rows)
        # where the rows of the pass belong in `queries`, in the same order as in `shape`
        self.places = self.queries[:, :, : self.count].view(self.inner).transpose(1, 2)


class PackedAttention:
    """Writes a pass's keys and values to its sequences and attends over them, layer by layer.

    `exact`: a row gets the same bits wherever the pass ends (`steady`), at the price of reading up to half as much
    again for sequences of 193 to 320 tokens.
    """

    def __init__(self, batch: PackedBatch, shape: KVShape, heads: int, *, exact: bool = False) -> None:
        self._shape = shape
        self._heads = heads
        self._group = heads // shape.kv_heads
        self._length = steady if exact else padded
        self._sizes = [segment.rows for segment in batch.segments]
        self._rows = sum(self._sizes)
        for segment in batch.segments:
            if exact and segment.kv.slot is None:
                segment.kv.reserve(self._length(segment.start + segment.rows))
        targets = [self._targets_of(segment) for segment in batch.segments]
        self._targets = [
            [rows[index] for index in (2 * layer, 2 * layer + 1) for rows in targets] for layer in range(shape.layers)
        ]
        self._blocks = [
            block
            for group in side_by_side(batch.segments, self._group, exact=exact)
            for block in (self._together(group) if len(group) > 1 else self._split(group[0]))
        ]

    def attend(
        self, layer: int, query: Tensor, key_value: tuple[Tensor, Tensor], scale: float, window: int | None = None
    ) -> Tensor:
        """Attention [T, heads * head_dim] of `query` [T, heads, head_dim] after storing keys and values.

        Keys and values are [T, kv_heads, head_dim]. Rows of `query` beyond the segments (padding) give zeros. With
        `window`, a token sees itself and the `window` - 1 tokens before it.
        """
        self._store(layer, *key_value)
        output = torch.zeros_like(query, memory_format=torch.contiguous_format)
        for block in self._blocks:
            self._attend_block(block, layer, query, output, (scale, window))
        return output.view(output.shape[0], -1)

    def _store(self, layer: int, key: Tensor, value: Tensor) -> None:
        if key.shape[0] != self._rows:  # padding
            key, value = key[: self._rows], value[: self._rows]
        if len(self._sizes) == 1:
            torch._foreach_copy_(self._targets[layer], (key, value))
        else:
            sources = (*key.split_with_sizes(self._sizes), *value.split_with_sizes(self._sizes))
            torch._foreach_copy_(self._targets[layer], sources)

    def _attend_block(
        self, block: _Block, layer: int, query: Tensor, output: Tensor, options: tuple[float, int | None]
    ) -> None:
        scale, window = options
        rows = query[block.used] if block.picked is None else query.index_select(0, block.picked.rows)
        block.places.copy_(rows.view(block.shape))
        mask = block.masks.get(window)
        if mask is None:
            mask = block.masks[window] = self._mask(block, window)
        keys, values = block.keys[2 * layer], block.keys[2 * layer + 1]
        attended = scaled_dot_product_attention(block.queries, keys, values, attn_mask=mask, scale=scale)
        result = attended[:, :, : block.count].view(block.inner).transpose(1, 2)
        if block.picked is None:
            output[block.used].view(block.shape).copy_(result)
        else:
            flat = result.reshape(-1, *output.shape[1:])
            output.index_copy_(0, block.picked.targets, flat.index_select(0, block.picked.sources))

    def _targets_of(self, segment: Segment) -> tuple[Tensor, ...]:
        """Where keys and values of the layers in turn belong: [rows, kv_heads, head_dim] each."""
        rows = segment.kv.data.narrow(3, segment.start, segment.rows).transpose(2, 3)
        return rows.view(-1, *rows.shape[2:]).unbind(0)

    def _split(self, segment: Segment) -> list[_Block]:
        blocks = []
        slot = segment.kv.slot
        data = segment.kv.data if slot is None else slot.view(slot.positions)
        whole = data.view(-1, 1, *data.shape[2:])
        for offset in range(0, segment.rows, _MAX_TOKENS):
            rows = min(_MAX_TOKENS, segment.rows - offset)
            start = segment.start + offset
            keys = whole.narrow(3, 0, self._length(start + rows)).unbind(0)
            blocks.append(_Block(keys, self._query_buffer(1, rows), [start], rows, segment.first + offset, self._group))
        return blocks

    def _together(self, group: list[Segment]) -> list[_Block]:
        """One block for sequences that lie in slots of one tensor, and for the slots between them."""
        slots = [slot_of(segment) for segment in group]
        low, count = slots[0].index, slots[-1].index - slots[0].index + 1
        whole, rows = slots[0].whole, max(segment.rows for segment in group)
        length = self._length(max(segment.start + segment.rows for segment in group))
        view = whole.view(-1, *whole.shape[2:])[:, low : low + count].narrow(3, 0, length)
        starts = [0] * count
        for slot, segment in zip(slots, group, strict=True):
            starts[slot.index - low] = segment.start
        block = _Block(view.unbind(0), self._query_buffer(count, rows), starts, rows, group[0].first, self._group)
        if not all(
            slot.index == low + place and segment.rows == rows and segment.first == block.first + place * rows
            for place, (slot, segment) in enumerate(zip(slots, group, strict=True))
        ):
            block.picked = self._picked(group, [slot.index - low for slot in slots], (count, rows))
        return [block]

    def _picked(self, group: list[Segment], places: list[int], size: tuple[int, int]) -> _Picked:
        count, width = size
        rows = [group[0].first] * (count * width)
        sources: list[int] = []
        targets: list[int] = []
        for place, segment in zip(places, group, strict=True):
            own = range(place * width, place * width + segment.rows)
            sources.extend(own)
            targets.extend(range(segment.first, segment.first + segment.rows))
            rows[own.start : own.stop] = targets[-segment.rows :]
        return _Picked(*(torch.tensor(values, device=self._shape.device) for values in (rows, sources, targets)))

    def _query_buffer(self, sequences: int, rows: int) -> Tensor:
        count = -(-rows * self._group // _ROW_GROUP) * _ROW_GROUP
        size = (sequences, self._shape.kv_heads, count, self._shape.head_dim)
        return torch.zeros(size, dtype=self._shape.dtype, device=self._shape.device)

    def _mask(self, block: _Block, window: int | None) -> Tensor:
        """Additive mask [sequences, 1, padded rows, padded length]; padding rows see position 0 like any other."""
        count, length = block.queries.shape[2], block.keys[0].shape[2]
        device = self._shape.device
        starts = torch.tensor(block.starts, device=device)[:, None, None, None]
        position = starts + torch.arange(count, device=device)[:, None] // self._group
        column = torch.arange(length, device=device)
        hidden = column > position
        if window is not None:
            hidden |= column <= position - window
        mask = torch.zeros((len(block.starts), 1, count, length), dtype=self._shape.dtype, device=device)
        return mask.masked_fill_(hidden, -torch.inf)
