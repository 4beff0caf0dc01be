"""Word lists as the runtime's tensors carry them: shape [2, n], ids in row 0, end offsets in row 1.

Row 0 holds the ids of all words one after another; row 1 holds, word by word, the offset in row 0 at which the word
ends, padded with -1. (NVIDIA's own loop compares the tail of the output with these *rows*, and so misses the words.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["completed_word", "pack_words", "unpack_words"]


def pack_words(words: Iterable[Sequence[int]]) -> npt.NDArray[np.int32]:
    """The [2, n] array of `words` (empty words are left out); [[0], [-1]] when there is none."""
    kept = [list(word) for word in words if len(word)]
    flat = [token for word in kept for token in word]
    packed = np.full((2, max(1, len(flat))), -1, np.int32)
    packed[0, : len(flat)] = flat
    packed[0, len(flat) :] = 0
    packed[1, : len(kept)] = np.cumsum([len(word) for word in kept], dtype=np.int32)
    return packed


def unpack_words(packed: npt.ArrayLike) -> list[list[int]]:
    """The words of a [2, n] (or [1, 2, n]) array; ValueError when its offsets do not rise within row 0."""
    rows = np.asarray(packed)
    rows = rows.reshape(rows.shape[-2:]) if rows.ndim == 3 and rows.shape[0] == 1 else rows
    if rows.ndim != 2 or rows.shape[0] != 2:
        raise ValueError(f"a word list has shape [2, n], not {list(np.shape(packed))}")
    words: list[list[int]] = []
    start = 0
    for end in (int(offset) for offset in rows[1] if offset >= 0):
        if not start < end <= rows.shape[1]:
            raise ValueError(f"word list with end offset {end} after {start} in {rows.shape[1]} ids")
        words.append([int(token) for token in rows[0, start:end]])
        start = end
    return words


def completed_word(ids: Sequence[int], words: Iterable[Sequence[int]]) -> Sequence[int] | None:
    """The longest of `words` that `ids` ends with, None when it ends with none of them."""
    matches = [word for word in words if len(word) and list(ids[-len(word) :]) == list(word)]
    return max(matches, key=len, default=None)
