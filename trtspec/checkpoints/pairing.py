"""Whether two checkpoints can exchange token ids, and up to which length they can work together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trtspec.checkpoints.checkpoint import Survey
from trtspec.checkpoints.tokenizer import TokenizerFacts

__all__ = ["DifferingId", "Pairing", "TokenizerMatch", "compare_tokenizers", "pair_facts"]

Relation = Literal["same", "extended", "different"]
SHOWN = 10


@dataclass(frozen=True)
class DifferingId:
    """An id that does not mean the same token on both sides; None: that side has no such id."""

    id: int
    target: str | None
    draft: str | None


@dataclass(frozen=True)
class TokenizerMatch:
    """How two tokenizers compare, id by id.

    `relation`: same (every id means the same token on both sides), extended (no id is contradicted, but one side has
    ids that the other lacks), different. `conflicts` counts ids with two meanings; `only_target` and `only_draft` are
    the ids that one side has. `same_ids` of `total_ids` agree; `shared_tokens` is the share of token texts that both
    vocabularies hold, whatever their ids. `merges`, `pre_tokenizer`, `normalizer`: True if equal, None if unknown.
    """

    relation: Relation
    same_ids: int
    total_ids: int
    conflicts: int
    only_target: tuple[int, ...]
    only_draft: tuple[int, ...]
    differing: tuple[DifferingId, ...]
    shared_tokens: float
    merges: bool | None
    pre_tokenizer: bool | None
    normalizer: bool | None

    @property
    def overlap(self) -> float:
        """Share of ids, over both ranges, that mean the same token on both sides: 0 to 1."""
        return self.same_ids / self.total_ids if self.total_ids else 0.0


def compare_tokenizers(target: TokenizerFacts, draft: TokenizerFacts) -> TokenizerMatch:
    """Compare id → token over the whole range of both: base, added and special tokens."""
    splitting = {
        "merges": _equal(target.merges, draft.merges),
        "pre_tokenizer": _equal(target.pre_tokenizer, draft.pre_tokenizer),
        "normalizer": _equal(target.normalizer, draft.normalizer),
    }
    if target.tokens is draft.tokens or target.tokens == draft.tokens:
        count = len(target.tokens)
        return TokenizerMatch("same", count, count, 0, (), (), (), 1.0 if count else 0.0, **splitting)
    only_target = tuple(sorted(target.tokens.keys() - draft.tokens.keys()))
    only_draft = tuple(sorted(draft.tokens.keys() - target.tokens.keys()))
    shared = target.tokens.keys() & draft.tokens.keys()
    conflicts = sorted(index for index in shared if target.tokens[index] != draft.tokens[index])
    total = len(shared) + len(only_target) + len(only_draft)
    return TokenizerMatch(
        relation="different" if conflicts else "extended",
        same_ids=len(shared) - len(conflicts),
        total_ids=total,
        conflicts=len(conflicts),
        only_target=only_target,
        only_draft=only_draft,
        differing=_differing(target.tokens, draft.tokens, [*conflicts, *only_target, *only_draft]),
        shared_tokens=_shared_tokens(target.tokens, draft.tokens),
        **splitting,
    )


def _equal(one: str | None, other: str | None) -> bool | None:
    return None if one is None or other is None else one == other


def _differing(target: Mapping[int, str], draft: Mapping[int, str], ids: list[int]) -> tuple[DifferingId, ...]:
    return tuple(DifferingId(index, target.get(index), draft.get(index)) for index in sorted(ids)[:SHOWN])


def _shared_tokens(target: Mapping[int, str], draft: Mapping[int, str]) -> float:
    ours, theirs = set(target.values()), set(draft.values())
    return len(ours & theirs) / max(len(ours), len(theirs), 1)


@dataclass(frozen=True)
class Pairing:
    """What target and draft have in common; None where a part of one of them could not be read."""

    tokenizers: TokenizerMatch | None
    target_vocab: int | None
    draft_vocab: int | None
    target_positions: int | None
    draft_positions: int | None

    @property
    def usable_length(self) -> int | None:
        """Prompt + output tokens for which both models have positions; None when neither states a length."""
        return min((n for n in (self.target_positions, self.draft_positions) if n is not None), default=None)

    def to_json(self) -> dict[str, Any]:
        """The `pair` object of `check --output json`; null where a value is not known."""
        match = self.tokenizers
        differing = match.differing if match else ()
        return {
            "same_tokenizer": match.relation == "same" if match else None,
            "tokenizer_relation": match.relation if match else None,
            "token_overlap": match.overlap if match else None,
            "shared_tokens": match.shared_tokens if match else None,
            "first_differing_ids": [item.id for item in differing],
            "first_differing_tokens": [{"id": d.id, "target": d.target, "draft": d.draft} for d in differing],
            "vocab_size": {"target": self.target_vocab, "draft": self.draft_vocab},
            "usable_length": self.usable_length,
        }


def pair_facts(target: Survey, draft: Survey) -> Pairing:
    """What can be said of the pair from the parts that could be read."""
    both = target.tokenizer is not None and draft.tokenizer is not None
    return Pairing(
        tokenizers=compare_tokenizers(target.tokenizer, draft.tokenizer) if both else None,  # type: ignore[arg-type]
        target_vocab=target.vocab_size,
        draft_vocab=draft.vocab_size,
        target_positions=target.config.usable_positions if target.config else None,
        draft_positions=draft.config.usable_positions if draft.config else None,
    )
