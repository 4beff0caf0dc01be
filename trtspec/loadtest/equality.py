"""Whether both arms wrote the same text, and where they part when they did not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trtspec.loadtest.pairing import Pair, Pairs, record_pairs
from trtspec.loadtest.records import ChunkRecord, concurrency_label

__all__ = ["LISTED", "common_prefix", "equality", "first_divergence", "tokens_before"]

LISTED = 500
"""places that are listed at most: the first ones in order of level and time"""
_SHOWN = 40


def equality(pairs: Pairs, examined: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Counts of identical and diverged pairs, and `first_divergence` of diverged ones, at most `LISTED`.

    `examined` are the results of `trtspec.loadtest.divergence` (the two best tokens and their gap), merged in by pair
    and load level.
    """
    import numpy as np

    table = pairs.table
    same = table.text_hash[pairs.baseline] == table.text_hash[pairs.speculative]
    apart = np.flatnonzero(~same)
    known = {_key(item): item for item in examined}
    places = [first_divergence(pair) for pair in record_pairs(pairs.select(apart[:LISTED]))]
    return {
        "identical": len(pairs) - len(apart),
        "diverged": len(apart),
        "first_divergence": [{**place, **known.get(_key(place), {})} for place in places],
    }


def _key(item: Mapping[str, Any]) -> tuple[Any, str]:
    return item.get("pair"), str(item.get("load") or concurrency_label(item.get("concurrency") or 1))


def first_divergence(pair: Pair) -> dict[str, Any]:
    """Where a pair's texts part: character, index of the token, and what each arm wrote from there on."""
    baseline, speculative = pair.baseline, pair.speculative
    at = common_prefix(baseline.text, speculative.text)
    # the arm that sends smaller chunks tells the token's place more precisely
    finer = max(baseline, speculative, key=lambda record: len(record.chunks))
    return {
        "pair": pair.key,
        "prompt_id": baseline.prompt_id,
        "category": pair.category,
        "concurrency": pair.concurrency,
        "load": pair.load,
        "character": at,
        "token_index": tokens_before(finer.chunks, at),
        "baseline_text": baseline.text[at : at + _SHOWN],
        "speculative_text": speculative.text[at : at + _SHOWN],
    }


def common_prefix(one: str, other: str) -> int:
    """Length in characters of what both begin with."""
    shorter = min(len(one), len(other))
    return next((at for at in range(shorter) if one[at] != other[at]), shorter)


def tokens_before(chunks: Sequence[ChunkRecord], character: int) -> int | None:
    """Tokens whose chunks end at or before `character` of the text; None when a count is missing."""
    tokens = length = 0
    for chunk in chunks:
        length += len(chunk.text)
        if length > character:
            break
        if chunk.tokens is None and chunk.text:
            return None
        tokens += chunk.tokens or 0
    return tokens
