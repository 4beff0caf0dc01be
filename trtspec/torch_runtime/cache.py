"""Keys and values of finished sequences, kept for requests that continue them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trtspec.torch_runtime.kv import BLOCK, SequenceKV

__all__ = ["PrefixCache", "common_prefix"]

_WORTH_COPYING = 16  # tokens; computing fewer again costs no more than the copy


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """The number of leading tokens that both share."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


@dataclass
class _Entry:
    tokens: list[int]
    kv: SequenceKV


class PrefixCache:
    """Finished sequences, least recently used first, at most `budget` tokens of buffers.

    `new` makes a sequence with room for so many tokens, for copies.
    """

    def __init__(self, budget: int, *, slack: int, new: Callable[[int], SequenceKV]) -> None:
        self._budget = budget
        self._slack = slack
        self._new = new
        self._entries: list[_Entry] = []

    @property
    def tokens(self) -> int:
        """Tokens that the kept buffers have room for."""
        return sum(entry.kv.capacity for entry in self._entries)

    def put(self, tokens: list[int], kv: SequenceKV) -> None:
        """Keep a finished sequence whose first `kv.length` tokens are `tokens`."""
        if kv.length == 0:
            return
        self._entries.append(_Entry(tokens[: kv.length], kv))
        self.shrink(self._budget)

    def shrink(self, tokens: int) -> None:
        """Let go of the least recently used sequences until the rest has room for at most `tokens`."""
        while self._entries and self.tokens > tokens:
            self._entries.pop(0)

    def take(self, prompt: list[int]) -> SequenceKV | None:
        """Keys and values of the longest known prefix of `prompt` that leaves its last token to compute.

        A sequence that the prompt continues (but for `slack` rejected tokens) is handed over and truncated; one that
        only begins like the prompt is copied and stays.
        """
        best, length = self._longest(prompt[:-1])
        if best is None:
            return None
        if best.kv.length - length <= self._slack:
            self._entries.remove(best)
            best.kv.truncate(length)
            return best.kv
        if length < _WORTH_COPYING:
            return None
        self._entries.remove(best)
        self._entries.append(best)
        # no more than the request's own length, which there is memory for
        return best.kv.copy_to(self._new(min(length + BLOCK, len(prompt) + 1)), length)

    def _longest(self, prompt: list[int]) -> tuple[_Entry | None, int]:
        best: _Entry | None = None
        length = 0
        for entry in self._entries:
            shared = common_prefix(entry.tokens, prompt)
            # of equals the one with the least beyond the prefix: it can be taken over
            if shared > length or (best and shared == length > 0 and entry.kv.length < best.kv.length):
                best, length = entry, shared
        return best, length
