"""Which sequences of a pass are attended together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trtspec.torch_runtime.kv import SequenceKV, Slot, padded, steady

__all__ = ["Segment", "side_by_side", "slot_of"]

_FEW_ROWS = 32  # a sequence with more is a prompt: a call of its own costs little beside its work
_WIDEST = 16  # slots in a call: bounds the mask
# What a call costs, in units of one position of one sequence: a call itself (on two cores that share them with others,
# measured), and a query row beside the reading of keys and values.
_CALL, _ROW = 128.0, 1 / 12


@dataclass(frozen=True)
class Segment:
    """`rows` consecutive tokens of one sequence, the first at position `start`, in rows `first` … of the pass."""

    kv: SequenceKV
    start: int
    first: int
    rows: int


def slot_of(segment: Segment) -> Slot:
    """The slot that a segment's sequence lies in, where it has one."""
    assert segment.kv.slot is not None
    return segment.kv.slot


def side_by_side(segments: Sequence[Segment], heads: int, *, exact: bool = False) -> list[list[Segment]]:
    """All segments, in groups that are cheapest when each is attended by one call over neighbouring slots.

    A call reads the longest length of its group for each slot, idle ones between them included: short sequences do not
    share one with a long one. `heads` is the number of query heads that share keys and values. With `exact`, only
    sequences share a call whose lengths are read alike when they are alone (`steady`).
    """
    alone: list[list[Segment]] = []
    pools: dict[int, list[Segment]] = {}
    for segment in segments:
        if segment.kv.slot is None or segment.rows > _FEW_ROWS:
            alone.append([segment])
        else:
            pools.setdefault(id(segment.kv.slot.whole), []).append(segment)
    rows = (sorted(own, key=lambda segment: slot_of(segment).index) for own in pools.values())
    groups = (_cut(row, heads, exact=exact) for row in rows)
    return [*alone, *(group for cut in groups for group in cut)]


def _cut(row: list[Segment], heads: int, *, exact: bool) -> list[list[Segment]]:
    """`row`, sorted by slot, cut into the groups with the least cost in all."""
    lengths = [(steady if exact else padded)(segment.start + segment.rows) for segment in row]
    best = [(0.0, 0)]  # of the first n segments: their cost, and where the last group begins
    for end in range(1, len(row) + 1):
        last = slot_of(row[end - 1]).index
        length = rows = 0
        options = []
        for begin in range(end - 1, -1, -1):
            span = last - slot_of(row[begin]).index + 1
            if span > _WIDEST or (exact and lengths[begin] != lengths[end - 1]):
                break
            length = max(length, lengths[begin])
            rows = max(rows, row[begin].rows)
            cost = _CALL + span * length * (1 + rows * heads * _ROW)
            options.append((best[begin][0] + cost, begin))
        best.append(min(options))
    groups = []
    end = len(row)
    while end:
        begin = best[end][1]
        groups.append(row[begin:end])
        end = begin
    return groups
