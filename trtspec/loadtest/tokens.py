"""A tokenizer of the target's, for what a server does not count and for prompts of a given length."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trtspec.errors import EnvironmentMissing, UsageError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["TextTokens", "open_tokenizer"]


class TextTokens:
    """Counts and cuts texts in tokens, without special ones."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def count(self, text: str) -> int:
        """Tokens of `text` as a whole."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def made_of(self, words: Sequence[str], tokens: int) -> str:
        """A text of `words`, again and again, of about `tokens` tokens (exactly, where decoding keeps them)."""
        text = " ".join(words)
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        repeated = ids * (tokens // max(1, len(ids)) + 1)
        return str(self._tokenizer.decode(repeated[:tokens]))


def open_tokenizer(folder: Path) -> TextTokens | None:
    """The tokenizer in a checkpoint folder; None when it has no tokenizer.json, UsageError when that is broken."""
    path = folder if folder.name.endswith(".json") else folder / "tokenizer.json"
    if not path.is_file():
        return None
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise EnvironmentMissing("counting tokens needs the package tokenizers", fix="pip install tokenizers") from None
    try:
        return TextTokens(Tokenizer.from_file(str(path)))
    except Exception as error:  # noqa: BLE001 - the library raises bare exceptions
        raise UsageError(f"the tokenizer cannot be read: {error}", where=str(path)) from None
