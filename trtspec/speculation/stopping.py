"""Stop words matched on text, whatever the tokens and chunks in which the text arrives."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["StopWords"]


class StopWords:
    """Lets text through up to the first stop word; never a part of one.

    The word that is complete first wins, as if the text came character by character; of two that end at the same
    place, the one that starts earlier. So the result does not depend on how the text is cut into pieces.
    """

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._words = tuple(dict.fromkeys(word for word in words if word))
        self._longest = max(map(len, self._words), default=0)
        self._held = ""
        self.found: str | None = None

    @property
    def held(self) -> str:
        """Text that may be the beginning of a stop word, not let through yet."""
        return self._held

    def push(self, text: str) -> str:
        """The text that may be shown now; after a stop word (`found`) nothing more."""
        if self.found is not None:
            return ""
        text = self._held + text
        match = self._first_match(text)
        if match is not None:
            start, self.found = match
            self._held = ""
            return text[:start]
        keep = self._possible_start(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def flush(self) -> str:
        """The held text, when nothing more comes."""
        held, self._held = self._held, ""
        return held

    def _first_match(self, text: str) -> tuple[int, str] | None:
        found = [(text.find(word), word) for word in self._words]
        matches = [(start + len(word), start, word) for start, word in found if start >= 0]
        if not matches:
            return None
        _, start, word = min(matches)
        return start, word

    def _possible_start(self, text: str) -> int:
        """Length of the longest end of `text` that is a beginning of a stop word."""
        for length in range(min(self._longest - 1, len(text)), 0, -1):
            end = text[len(text) - length :]
            if any(word.startswith(end) for word in self._words):
                return length
        return 0
