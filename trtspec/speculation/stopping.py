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
        self._words = [_Word(word) for word in dict.fromkeys(words) if word]
        self._held = ""
        self.found: str | None = None

    @property
    def held(self) -> str:
        """Text that may be the beginning of a stop word, not let through yet."""
        return self._held

    def push(self, text: str) -> str:
        """The text that may be shown now; after a stop word (`found`) nothing more."""
        if self.found is not None or not self._words:
            return "" if self.found is not None else text
        start = len(self._held)
        text = self._held + text
        for index in range(start, len(text)):
            complete = [word for word in self._words if word.feed(text[index])]
            if complete:
                self.found = max((word.text for word in complete), key=len)
                self._held = ""
                return text[: index + 1 - len(self.found)]
        keep = max(word.matched for word in self._words)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def flush(self) -> str:
        """The held text, when nothing more comes."""
        held, self._held = self._held, ""
        return held


class _Word:
    """How much of one word the text so far ends with; a character costs the same however long the word is.

    Knuth, Morris, Pratt: Fast pattern matching in strings, SIAM J. Comput. 6 (1977).
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.matched = 0
        self._fallback = [0] * len(text)
        for index in range(1, len(text)):
            length = self._fallback[index - 1]
            while length and text[index] != text[length]:
                length = self._fallback[length - 1]
            self._fallback[index] = length + (text[index] == text[length])

    def feed(self, character: str) -> bool:
        """Whether the word is complete with this character."""
        while self.matched and self.text[self.matched] != character:
            self.matched = self._fallback[self.matched - 1]
        self.matched += self.text[self.matched] == character
        return self.matched == len(self.text)
