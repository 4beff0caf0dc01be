"""How much of every prompt is alike however unique its own beginning is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["SharedHead", "shared_head"]


@dataclass(frozen=True)
class SharedHead:
    """What a chat template puts before the first own letter of every prompt; `tokens` None: they cannot be counted.

    A cache of prefixes may keep so many tokens (in TensorRT-LLM only whole blocks of `tokens_per_block`), no more.
    """

    characters: int
    tokens: int | None

    def as_json(self) -> dict[str, Any]:
        """For provenance."""
        return asdict(self)


def shared_head(
    render: Callable[[Sequence[Mapping[str, str]]], str],
    count: Callable[[str], int] | None,
    system: str | None = None,
) -> SharedHead:
    """The common beginning of two conversations that differ from their first own letter on."""
    one, other = (render(_conversation(letter, system)) for letter in "xo")
    same = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return SharedHead(same, None if count is None else count(one[:same]))


def _conversation(letter: str, system: str | None) -> list[Mapping[str, str]]:
    first = {"role": "user" if system is None else "system", "content": letter}
    return [first] if system is None else [first, {"role": "user", "content": letter}]
