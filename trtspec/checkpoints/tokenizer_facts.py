"""What is known of a tokenizer, whatever file it was read from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

__all__ = ["MOST_IDS", "TokenizerFacts", "collisions", "content_key", "is_id"]

MOST_IDS = 1 << 31  # they are 32-bit numbers everywhere


@dataclass(frozen=True)
class TokenizerFacts:
    """id → token over the whole range, the ids of special and added tokens, and keys of how text is split.

    `merges`, `pre_tokenizer`, `normalizer` and `decoder` are content hashes behind a word for the form they were read
    from ("json:…"): two of the same form are equal when the contents are; None where the source does not carry that
    part. `duplicates` are (id, token, token) where one id stands for two tokens.
    """

    source: str
    kind: str
    tokens: Mapping[int, str] = field(repr=False)
    special: frozenset[int] = field(repr=False)
    added: frozenset[int] = field(repr=False)
    duplicates: tuple[tuple[int, str, str], ...]
    merges: str | None
    pre_tokenizer: str | None
    normalizer: str | None
    bos_id: int | None
    end_id: int | None
    adds_bos: bool
    decoder: str | None = None

    @property
    def width(self) -> int:
        """Largest id + 1, added tokens included: the rows that an embedding needs at least."""
        return max(self.tokens, default=-1) + 1


def is_id(value: Any) -> TypeGuard[int]:
    """True for a whole number that can be a token id."""
    return type(value) is int and 0 <= value < MOST_IDS


def content_key(value: Any, form: str = "json") -> str:
    """A hash of a JSON value, behind its form."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return f"{form}:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def collisions(pairs: Iterable[tuple[int, str]]) -> list[tuple[int, str, str]]:
    """(id, first token, other token) for each id that stands for two."""
    seen: dict[int, str] = {}
    found = []
    for index, text in pairs:
        other = seen.setdefault(index, text)
        if other != text:
            found.append((index, other, text))
    return found
