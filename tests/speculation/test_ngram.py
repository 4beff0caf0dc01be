from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trtspec.speculation.ngram import NgramDraft


def propose(ids: Sequence[int], count: int, shortest: int = 2) -> tuple[int, ...]:
    return asyncio.run(NgramDraft(shortest).propose(ids, count))


@pytest.mark.parametrize(
    ("ids", "count", "expected"),
    [
        ([1, 2, 3, 4, 9, 1, 2], 2, (3, 4)),
        ([1, 2, 3, 4, 9, 1, 2], 1, (3,)),
        # the latest of equally good ones
        ([1, 2, 3, 7, 1, 2, 4, 8, 1, 2], 1, (4,)),
        # the one that agrees over more tokens, though it is earlier
        ([5, 1, 2, 3, 7, 1, 2, 4, 5, 1, 2], 1, (3,)),
        # a continuation that reaches the end goes on with itself
        ([8, 1, 2, 1, 2], 5, (1, 2, 1, 2, 1)),
        ([3, 3, 3], 4, (3, 3, 3, 3)),
        ([1, 2, 3, 4], 3, ()),
        ([1], 3, ()),
        ([], 3, ()),
        ([1, 2, 3, 1, 2], 0, ()),
    ],
)
def test_the_best_earlier_occurrence_is_continued(ids: list[int], count: int, expected: tuple[int, ...]) -> None:
    assert propose(ids, count) == expected


def test_shorter_matches_count_only_when_they_may() -> None:
    assert propose([1, 5, 9, 1], 1, shortest=2) == ()
    assert propose([1, 5, 9, 1], 1, shortest=1) == (5,)
    with pytest.raises(ValueError, match="at least one"):
        NgramDraft(0)


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 8), st.integers(1, 3))
def test_reading_bit_by_bit_gives_the_same_draft(ids: list[int], count: int, shortest: int) -> None:
    grown = NgramDraft(shortest)
    for end in range(len(ids)):
        asyncio.run(grown.propose(ids[:end], 1))
    assert asyncio.run(grown.propose(ids, count)) == propose(ids, count, shortest)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(1, 8))
def test_a_draft_is_what_followed_an_earlier_occurrence(ids: list[int], count: int) -> None:
    draft = propose(ids, count)
    whole = [*ids, *draft]
    assert len(draft) in {0, count}
    assert not draft or any(
        whole[end - 2 : end] == ids[-2:] and whole[end : end + count] == list(draft) for end in range(2, len(ids))
    )
