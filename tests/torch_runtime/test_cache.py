"""Kept sequences: the longest prefix, handed over or copied, within a budget."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from trtspec.torch_runtime.cache import PrefixCache, common_prefix
from trtspec.torch_runtime.kv import KVShape, SequenceKV

SHAPE = KVShape(layers=2, kv_heads=1, head_dim=2)


def empty(capacity: int) -> SequenceKV:
    return SequenceKV(SHAPE, capacity)


def sequence(tokens: list[int]) -> SequenceKV:
    """A sequence whose values are its tokens."""
    kv = SequenceKV(SHAPE, len(tokens))
    kv.data[:, :, :, : len(tokens)] = torch.tensor(tokens, dtype=torch.float32)[None, None, None, :, None]
    kv.length = len(tokens)
    return kv


def held(kv: SequenceKV) -> list[int]:
    return [int(value) for value in kv.data[1, 1, 0, : kv.length, 0]]


@given(st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)))
def test_common_prefix(left: list[int], right: list[int]) -> None:
    count = common_prefix(left, right)
    assert left[:count] == right[:count]
    assert count in {len(left), len(right)} or left[count] != right[count]


def test_a_continued_sequence_is_handed_over() -> None:
    cache = PrefixCache(1000, slack=3, new=empty)
    cache.put([1, 2, 3, 4, 5], sequence([1, 2, 3, 4, 5]))
    kv = cache.take([1, 2, 3, 9, 9, 9])
    assert kv is not None
    assert held(kv) == [1, 2, 3]
    assert cache.take([1, 2, 3, 9]) is None


def test_the_last_token_is_always_computed() -> None:
    cache = PrefixCache(1000, slack=3, new=empty)
    cache.put([1, 2, 3], sequence([1, 2, 3]))
    kv = cache.take([1, 2, 3])
    assert kv is not None
    assert kv.length == 2


def test_a_branch_is_copied() -> None:
    tokens = list(range(40))
    cache = PrefixCache(1000, slack=3, new=empty)
    cache.put(tokens, sequence(tokens))
    kv = cache.take([*tokens[:20], 99, 98])
    assert kv is not None
    assert held(kv) == tokens[:20]
    kv.data.zero_()
    again = cache.take([*tokens, 5])
    assert again is not None
    assert held(again) == tokens


def test_a_short_branch_is_not_worth_a_copy() -> None:
    tokens = list(range(40))
    cache = PrefixCache(1000, slack=3, new=empty)
    cache.put(tokens, sequence(tokens))
    assert cache.take([0, 1, 2, 99]) is None


def test_the_least_recently_used_goes_first() -> None:
    cache = PrefixCache(128, slack=100, new=empty)
    for start in (0, 100, 200):
        cache.put(list(range(start, start + 64)), sequence(list(range(start, start + 64))))
    assert cache.tokens == 128
    assert cache.take([*range(64), 5]) is None
    assert cache.take([*range(100, 164), 5]) is not None


def test_growing_keeps_the_content() -> None:
    kv = sequence(list(range(64)))
    kv.reserve(65)
    assert kv.capacity == 128
    assert held(kv) == list(range(64))
