"""Word lists in the form of the runtime's tensors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trtspec.speculation import completed_word, pack_words, unpack_words


@given(st.lists(st.lists(st.integers(0, 1 << 20), min_size=1, max_size=5), max_size=6))
def test_packing_and_unpacking(words: list[list[int]]) -> None:
    packed = pack_words(words)
    assert packed.dtype == np.int32
    assert packed.shape[0] == 2
    assert unpack_words(packed) == words
    assert unpack_words(packed[None]) == words


def test_the_rows_are_ids_and_end_offsets() -> None:
    assert pack_words([[7, 8], [9]]).tolist() == [[7, 8, 9], [2, 3, -1]]


def test_an_output_that_ends_in_one_of_several_words_stops() -> None:
    """NVIDIA's loop compares with the rows and misses this."""
    words = unpack_words(np.array([[7, 8, 9], [2, 3, -1]], np.int32))
    assert completed_word([1, 2, 9], words) == [9]
    assert completed_word([1, 7, 8], words) == [7, 8]
    assert completed_word([7, 8, 2], words) is None
    # the offset row is no word: an output that ends in token 2 or 3 goes on
    assert completed_word([5, 2], words) is None
    assert completed_word([2, 3, -1], words) is None


def test_what_nvidia_makes_of_an_empty_stop_word_is_no_word() -> None:
    words = unpack_words(np.array([[0], [-1]], np.int32))
    assert words == []
    assert completed_word([5, 0], words) is None


@pytest.mark.parametrize("rows", [[[1, 2], [3, -1]], [[1, 2], [2, 1]], [[1, 2, 3]]])
def test_malformed_lists_are_refused(rows: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="word list"):
        unpack_words(np.array(rows))
