"""Whether both arms wrote the same text, and where they part when they did not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trtspec.loadtest.pairing import Pair
from trtspec.loadtest.records import ChunkRecord

__all__ = ["common_prefix", "equality", "tokens_before"]

_SHOWN = 40


def equality(pairs: Sequence[Pair], examined: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Counts of identical and diverged pairs, and `first_divergence` of each diverged one.

    `examined` are the results of `trtspec.loadtest.divergence` (the two best tokens and their gap), merged in by pair
    and concurrency.
    """
    known = {(item["pair"], item["concurrency"]): item for item in examined}
    diverged = [pair for pair in pairs if pair.baseline.text != pair.speculative.text]
    places = [{**_place(pair), **known.get((pair.key, pair.concurrency), {})} for pair in diverged]
    return {"identical": len(pairs) - len(diverged), "diverged": len(diverged), "first_divergence": places}


def _place(pair: Pair) -> dict[str, Any]:
    baseline, speculative = pair.baseline, pair.speculative
    at = common_prefix(baseline.text, speculative.text)
    # the arm that sends smaller chunks tells the token's place more precisely
    finer = max(baseline, speculative, key=lambda record: len(record.chunks))
    return {
        "pair": pair.key,
        "prompt_id": baseline.prompt_id,
        "category": pair.category,
        "concurrency": pair.concurrency,
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
