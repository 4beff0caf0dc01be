"""Drafting without a second model: what followed the last tokens when they stood in the text before.

Prompt lookup decoding (Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding): where an answer repeats its prompt
or itself, as in edits, extraction and code, the continuation of an earlier occurrence is a good and free draft.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["NgramDraft"]

# Earlier occurrences that are looked at: the latest ones.
_CANDIDATES = 16
# A match longer than this is as good as one that is longer still.
_LONGEST = 32


class NgramDraft:
    """`trtspec.speculation.DraftLeaf` for one request, whose tokens only ever grow.

    A draft continues the earlier occurrence that agrees with the end of the text over the most tokens, at least
    `shortest` of them; of equals the latest. Without an occurrence it is empty, which is no failure (`Models.lookup`).
    """

    def __init__(self, shortest: int = 2) -> None:
        if shortest < 1:
            raise ValueError(f"an n-gram has at least one token, not {shortest}")
        self._shortest = shortest
        self._ids: list[int] = []
        self._behind: dict[tuple[int, ...], list[int]] = {}  # n-gram → where its occurrences end, in order

    async def propose(self, ids: Sequence[int], count: int) -> tuple[int, ...]:
        """Up to `count` tokens; a continuation that reaches the end of the text goes on with itself."""
        self._read(ids)
        start = self._best()
        if start is None:
            return ()
        draft: list[int] = []
        for place in range(start, start + count):
            beyond = place - len(self._ids)
            draft.append(self._ids[place] if beyond < 0 else draft[beyond])
        return tuple(draft)

    def _read(self, ids: Sequence[int]) -> None:
        """Index every n-gram that ends before the last token; the one that ends with it is looked up."""
        known = len(self._ids)
        self._ids += ids[known:]
        for end in range(max(known, self._shortest), len(self._ids)):
            self._behind.setdefault(tuple(self._ids[end - self._shortest : end]), []).append(end)

    def _best(self) -> int | None:
        """Where the continuation begins."""
        tail = tuple(self._ids[-self._shortest :])
        found = self._behind.get(tail, [])[-_CANDIDATES:]
        return max(reversed(found), key=self._agreement, default=None)

    def _agreement(self, end: int) -> int:
        """How many tokens before `end` equal the last ones of the text."""
        length = self._shortest
        while length < min(end, _LONGEST) and self._ids[end - 1 - length] == self._ids[-1 - length]:
            length += 1
        return length
