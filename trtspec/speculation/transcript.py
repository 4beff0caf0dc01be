"""The output so far: which tokens, from whom, and how much of their text may be shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from .detokenize import Decode, IncrementalDecoder
from .stopping import StopWords

__all__ = ["DRAFTED", "LOOKED_UP", "Piece", "Source", "Token", "Transcript"]

Source = Literal[0, 1, 2]
DRAFTED: Source = 1
LOOKED_UP: Source = 2


@dataclass(frozen=True)
class Token:
    """One output token: its id, the text it added, and who proposed it (0: nobody, the target chose it itself)."""

    id: int
    text: str
    source: Source = 0

    @property
    def drafted(self) -> bool:
        """Whether it was proposed and accepted."""
        return self.source != 0


@dataclass(frozen=True)
class Piece:
    """What became final since the last piece: text that may be shown, and the tokens that it came from."""

    text: str
    tokens: tuple[Token, ...]


@dataclass(frozen=True)
class _Placed:
    token: Token
    start: int  # characters of all text before this token


class Transcript:
    """Collects tokens, lets their text through as far as no stop word can reach back into it.

    A token counts (`count`) as soon as some text at or after its place is through, or nothing more comes. A stop word
    cuts the text before it, and with the text the tokens that would only have added to what was cut; so the count
    does not depend on the pieces in which tokens arrive.
    """

    def __init__(self, decode: Decode, stop_words: Iterable[str] = ()) -> None:
        self._decoder = IncrementalDecoder(decode)
        self._stop = StopWords(stop_words)
        self._waiting: list[_Placed] = []
        self._length = 0  # characters of all tokens
        self._through = 0  # characters let through
        self._text: list[str] = []
        self._closed = False
        self.count = 0

    @property
    def stopped(self) -> bool:
        """Whether a stop word was found."""
        return self._stop.found is not None

    def extend(self, ids: Sequence[int], drafted: int = 0, source: Source = DRAFTED) -> None:
        """Add `ids`, the first `drafted` of which came from `source`; what follows a stop word is dropped."""
        for index, token in enumerate(ids):
            if self.stopped:
                return
            self._add(Token(token, self._decoder.push(token), source if index < drafted else 0))

    def close(self) -> None:
        """No more tokens come: let through what was held back."""
        self._closed = True
        if self.stopped:
            return
        rest = self._decoder.flush()
        if rest and self._waiting:
            last = self._waiting.pop()
            self._length -= len(last.token.text)
            self._add(replace(last.token, text=last.token.text + rest), rest)
        elif rest:
            self._let_through(rest)
        if not self.stopped:
            self._pass(self._stop.flush())

    def take(self) -> Piece:
        """What became final since the last call."""
        text = "".join(self._text)
        tokens = self._countable()
        del self._waiting[: len(tokens)]
        self._text.clear()
        self.count += len(tokens)
        return Piece(text, tuple(placed.token for placed in tokens))

    def take_if_text(self) -> Piece | None:
        """`take` when there is text to show, else None (and everything stays for the next call)."""
        return self.take() if self._text else None

    def _add(self, token: Token, new_text: str | None = None) -> None:
        self._waiting.append(_Placed(token, self._length))
        self._length += len(token.text)
        self._let_through(token.text if new_text is None else new_text)

    def _let_through(self, text: str) -> None:
        self._pass(self._stop.push(text))

    def _pass(self, text: str) -> None:
        self._through += len(text)
        if text:
            self._text.append(text)

    def _countable(self) -> list[_Placed]:
        if self._closed and not self.stopped:
            return list(self._waiting)
        return [placed for placed in self._waiting if placed.start < self._through]
