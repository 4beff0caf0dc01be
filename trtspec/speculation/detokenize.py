"""Text from token ids as they arrive: what is returned adds up to the decode of all ids at once.

A token cannot be decoded alone: a leading space may be lost, a character may be spread over several tokens. Each
step decodes a short window (some tokens already shown, for their context, and those not shown yet) and returns what
is new. The window is bounded, so a token costs the same however long the text is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["Decode", "IncrementalDecoder"]

Decode = Callable[[Sequence[int]], str]

_REPLACEMENT = "\ufffd"
_CONTEXT = 4
# A UTF-8 character has at most four bytes, so at most three tokens of a window can be part of an unfinished one.
_UNFINISHED = 3
_MAX_WINDOW = 32
_SHORTEN_AT = 14


class IncrementalDecoder:
    """Turns ids into text one by one; incomplete characters are held back until they are complete."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._window: list[int] = []
        self._shown = 0  # tokens at the start of the window that are context
        self._base = ""  # their decode

    def push(self, token: int) -> str:
        """The text that `token` adds; empty while a character is incomplete."""
        self._window.append(token)
        text = self._decode(self._window)
        if text.endswith(_REPLACEMENT):
            return self._release_garbage(text) if len(self._window) > _MAX_WINDOW else ""
        if text == self._base and text and self._shown == len(self._window) - 1:
            self._window.pop()  # invisible (a special token): of no use as context
            return ""
        return self._show(text)

    def flush(self) -> str:
        """The rest: replacement characters of a character that never became complete."""
        return self._show(self._decode(self._window)) if len(self._window) > self._shown else ""

    def _show(self, text: str) -> str:
        # byte fallback turns a run of bytes into replacements when its end is no text; what was shown stays
        whole = text.startswith(self._base)
        new = text[len(self._base) :] if whole else self._decode(self._window[self._shown :])
        self._shown, self._base = len(self._window), text
        self._shorten()
        return new

    def _shorten(self) -> None:
        """Keep the last tokens only, from a place where a visible character starts; now and then is enough."""
        if len(self._window) < _SHORTEN_AT:
            return
        for size in range(_CONTEXT, min(2 * _CONTEXT + 1, len(self._window))):
            tail = self._window[-size:]
            base = self._decode(tail)
            if base and not base.startswith(_REPLACEMENT):
                break
        else:
            if len(self._window) <= _MAX_WINDOW:
                return
            tail = self._window[-_CONTEXT:]
            base = self._decode(tail)
        self._window, self._shown, self._base = tail, len(tail), base

    def _release_garbage(self, text: str) -> str:
        """Bytes that are no text at all: show those that no coming token can complete."""
        for cut in range(len(self._window) - _UNFINISHED, self._shown, -1):
            head, tail = self._decode(self._window[:cut]), self._decode(self._window[cut:])
            if head + tail == text:
                new = head[len(self._base) :]
                self._window, self._shown, self._base = self._window[cut:], 0, ""
                return new
        return ""
