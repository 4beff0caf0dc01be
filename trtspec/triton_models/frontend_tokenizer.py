"""The tokenizer of the frontend: tokenizer.json through `tokenizers` (starts fast), else transformers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

__all__ = ["TextTokenizer", "load_tokenizer"]


class _Codec(Protocol):
    """What both libraries can do."""

    def encode(self, text: str, *, special: bool) -> list[int]: ...

    def decode(self, ids: Sequence[int]) -> str: ...

    def special_id(self, text: str) -> int | None: ...


class TextTokenizer:
    """Text to ids with the tokenizer's own BOS rule, ids to text without special tokens."""

    def __init__(self, codec: _Codec, bos_text: str | None) -> None:
        self._codec = codec
        self._bos_text = bos_text
        self.decode = codec.decode
        self.special_id = codec.special_id  # the id of a text that is one special token, else None

    def encode_prompt(self, text: str) -> list[int]:
        """Ids of a prompt; BOS (and whatever else the tokenizer adds) unless the text begins with it already."""
        has_bos = bool(self._bos_text) and text.startswith(self._bos_text or "")
        return self._codec.encode(text, special=not has_bos)

    def encode_rendered(self, text: str) -> list[int]:
        """Ids of a prompt that a chat template wrote: nothing is added, its special tokens are special."""
        return self._codec.encode(text, special=False)

    def word_variants(self, word: str) -> list[list[int]]:
        """The ids of a word as it stands, and with a space before it."""
        variants = [self._codec.encode(text, special=False) for text in (word, f" {word}")]
        return [variant for index, variant in enumerate(variants) if variant and variant not in variants[:index]]


class _Fast:
    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(path))
        added = self._tokenizer.get_added_tokens_decoder()
        self._special = {token.content: number for number, token in added.items() if token.special}

    def encode(self, text: str, *, special: bool) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=special).ids)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def special_id(self, text: str) -> int | None:
        return self._special.get(text)


class _Slow:
    def __init__(self, folder: Path) -> None:
        from transformers import AutoTokenizer

        self._tokenizer: Any = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)

    def encode(self, text: str, *, special: bool) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=special))

    def decode(self, ids: Sequence[int]) -> str:
        text = self._tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return str(text)

    def special_id(self, text: str) -> int | None:
        known = text in self._tokenizer.all_special_tokens
        return int(self._tokenizer.convert_tokens_to_ids(text)) if known else None


def load_tokenizer(folder: Path) -> TextTokenizer:
    """The tokenizer in `folder`; no code from that folder is run."""
    fast = folder / "tokenizer.json"
    codec: _Codec = _Fast(fast) if fast.is_file() else _Slow(folder)
    return TextTokenizer(codec, _bos_text(folder))


def _bos_text(folder: Path) -> str | None:
    path = folder / "tokenizer_config.json"
    bos = json.loads(path.read_text(encoding="utf-8")).get("bos_token") if path.is_file() else None
    return bos.get("content") if isinstance(bos, dict) else bos
