"""Whether two checkpoints can exchange token ids, and up to which length they can work together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal

from trtspec.checkpoints.checkpoint import Survey
from trtspec.checkpoints.side import UNKNOWN, Side, side_facts
from trtspec.checkpoints.tokenizer_facts import TokenizerFacts

__all__ = ["DifferingId", "Pairing", "TokenizerMatch", "compare_tokenizers", "pair_facts"]

Relation = Literal["same", "extended", "different"]
SHOWN = 10
_FEW = 1000  # special tokens; a vocabulary of nothing but special tokens is no rename
# tokens that vocabularies carry to fill up or for later use
_PLACEHOLDER = re.compile(r"reserved|unused|dummy|placeholder|extra_id|^\[PAD\d*\]$|^<pad\d*>$", re.IGNORECASE)


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
    vocabularies hold, whatever their ids. `special_differs` are the first ids with one token that is special (never
    shown as text) on one side only. `placeholders` of the ids that one side has are named as fillers (reserved,
    unused). `renamed` are the conflicting ids where all of them are special on both sides and none ends a text: names
    that one release reserved and the next gave out; empty where any other id conflicts. `merges`, `pre_tokenizer`,
    `normalizer`, `decoder`: True if equal, None if unknown.
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
    decoder: bool | None = None
    special_differs: tuple[int, ...] = ()
    placeholders: int = 0
    renamed: tuple[int, ...] = ()

    @property
    def exchanges(self) -> bool:
        """True when an id of the draft means the same to the target, renamed special tokens aside."""
        return self.relation != "different" or bool(self.renamed)

    @property
    def splitting(self) -> dict[str, bool | None]:
        """Part of how text is split → whether it is equal; None: not known on one side, or of another form."""
        return {
            "merges": self.merges,
            "pre_tokenizer": self.pre_tokenizer,
            "normalizer": self.normalizer,
            "decoder": self.decoder,
        }

    @property
    def overlap(self) -> float:
        """Share of ids, over both ranges, that mean the same token on both sides: 0 to 1."""
        return self.same_ids / self.total_ids if self.total_ids else 0.0


def compare_tokenizers(target: TokenizerFacts, draft: TokenizerFacts) -> TokenizerMatch:
    """Compare id → token over the whole range of both: base, added and special tokens."""
    splitting: dict[str, Any] = {
        "merges": _equal(target.merges, draft.merges),
        "pre_tokenizer": _equal(target.pre_tokenizer, draft.pre_tokenizer),
        "normalizer": _equal(target.normalizer, draft.normalizer),
        "decoder": _equal(target.decoder, draft.decoder),
    }
    if target.tokens is draft.tokens or target.tokens == draft.tokens:
        count = len(target.tokens)
        flags = _special_differs(target, draft, target.tokens.keys())
        full = 1.0 if count else 0.0
        return TokenizerMatch("same", count, count, 0, (), (), (), full, **splitting, special_differs=flags)
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
        special_differs=_special_differs(target, draft, shared - set(conflicts)),
        placeholders=_placeholders([(target.tokens, only_target), (draft.tokens, only_draft)]),
        renamed=_renamed(target, draft, conflicts),
    )


def _equal(one: str | None, other: str | None) -> bool | None:
    """Whether two keys stand for the same content; None when one is absent or they come from different forms."""
    if one is None or other is None or one.rpartition(":")[0] != other.rpartition(":")[0]:
        return None
    return one == other


def _special_differs(target: TokenizerFacts, draft: TokenizerFacts, same: AbstractSet[int]) -> tuple[int, ...]:
    return tuple(sorted((target.special ^ draft.special) & same)[:SHOWN])


def _renamed(target: TokenizerFacts, draft: TokenizerFacts, conflicts: list[int]) -> tuple[int, ...]:
    special = (target.special & draft.special) - {target.end_id, draft.end_id}
    return tuple(conflicts) if len(conflicts) <= _FEW and special.issuperset(conflicts) else ()


def _placeholders(sides: list[tuple[Mapping[int, str], tuple[int, ...]]]) -> int:
    return sum(1 for tokens, ids in sides for index in ids if _PLACEHOLDER.search(tokens[index]))


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
    target: Side = UNKNOWN
    draft: Side = UNKNOWN

    @property
    def usable_length(self) -> int | None:
        """Prompt + output tokens for which both models have positions; None when neither states a length."""
        return min((n for n in (self.target_positions, self.draft_positions) if n is not None), default=None)

    @property
    def exchange(self) -> dict[str, bool | None]:
        """Acceptance mode → whether what the draft proposes has a meaning to the target; None when not known.

        tokens: no id has two meanings, renamed special tokens aside (rows that are padding do not matter). logits: the
        rows of both distributions stand for the same ids too, so the vocabularies must be equally wide.
        """
        tokens = None if self.tokenizers is None else self.tokenizers.exchanges
        known = self.target_vocab is not None and self.draft_vocab is not None
        if tokens is False or not known:
            return {"tokens": tokens, "logits": False if tokens is False else None}
        wide = self.target_vocab == self.draft_vocab
        return {"tokens": tokens, "logits": wide and tokens if wide else False}

    @property
    def same_template(self) -> bool | None:
        """Whether both carry the same chat template; None when one has none."""
        one, other = self.target.chat_template, self.draft.chat_template
        return None if one is None or other is None else one.strip() == other.strip()

    @property
    def shared_ends(self) -> tuple[int, ...]:
        """End ids of both, in the target's order."""
        return tuple(index for index in self.target.end_ids if index in self.draft.end_ids)

    def to_json(self) -> dict[str, Any]:
        """The `pair` object of `check --output json`; null where a value is not known."""
        match = self.tokenizers
        differing = match.differing if match else ()
        sides = {"target": self.target, "draft": self.draft}
        return {
            "same_tokenizer": match.relation == "same" if match else None,
            "tokenizer_relation": match.relation if match else None,
            "token_overlap": match.overlap if match else None,
            "shared_tokens": match.shared_tokens if match else None,
            "first_differing_ids": [item.id for item in differing],
            "first_differing_tokens": [{"id": d.id, "target": d.target, "draft": d.draft} for d in differing],
            "only_in": {"target": len(match.only_target), "draft": len(match.only_draft)} if match else None,
            "placeholders": match.placeholders if match else None,
            "renamed_ids": list(match.renamed[:SHOWN]) if match else [],
            "special_differing_ids": list(match.special_differs) if match else [],
            "splitting_equal": match.splitting if match else None,
            "exchange": self.exchange,
            "vocab_size": {"target": self.target_vocab, "draft": self.draft_vocab},
            "token_ids": {role: side.ids for role, side in sides.items()},
            "padding_rows": {role: side.padding for role, side in sides.items()},
            "end_ids": {**{role: list(side.end_ids) for role, side in sides.items()}, "shared": list(self.shared_ends)},
            "bos": {role: side.bos_json() for role, side in sides.items()},
            "same_chat_template": self.same_template,
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
        target=side_facts(target),
        draft=side_facts(draft),
    )
