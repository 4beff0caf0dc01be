"""Where the tokens of a round come from: the text itself, a draft model, or the first that has something to say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .leaves import Cancelled, DraftLeaf, LeafError
from .policy import Wanted, clipped
from .settle import cut_at_end, new_tokens, usable_draft

__all__ = ["DraftLimits", "Drafting", "Proposal"]

# After so many rounds in a row in which the draft model had nothing to offer, it is not asked again.
_EMPTY_DRAFTS = 2


@dataclass(frozen=True)
class Proposal:
    """The tokens of a round's draft; whether a lookup was made, and found them; why the draft model gave none."""

    tokens: tuple[int, ...] = ()
    asked_text: bool = False
    looked_up: bool = False
    failure: str = ""


@dataclass(frozen=True)
class DraftLimits:
    """What a draft may be: engine's longest, the target's vocabulary, tokens that end an answer."""

    longest: int | None
    vocab_size: int | None
    enders: tuple[int, ...]


class Drafting:
    """The drafters of one request.

    `lookup` may find nothing, which is no failure; `lookup_length` are the tokens that it proposes, None: as many as
    the policy wants of a model. A draft model that fails, or is empty twice in a row, is not asked again.
    """

    def __init__(
        self, limits: DraftLimits, model: DraftLeaf | None, lookup: DraftLeaf | None, lookup_length: int | None
    ) -> None:
        self._limits, self._model, self._lookup, self._lookup_length = limits, model, lookup, lookup_length
        self._empty_drafts = 0

    def __bool__(self) -> bool:
        return self._model is not None or self._lookup is not None

    @property
    def asks_model(self) -> bool:
        """Whether there is a draft model, and it has not been given up."""
        return self._model is not None

    async def propose(self, ids: Sequence[int], wanted: Wanted, room: int) -> Proposal:
        """A draft of the length `wanted` of its source where the target has `room` for so many tokens."""
        found: tuple[int, ...] = ()
        count = self._clipped((self._lookup_length or wanted.text) if wanted.text else 0, room)
        asked = self._lookup is not None and count > 0
        if self._lookup is not None and asked:
            found = usable_draft(await self._lookup.propose(ids, count), count, self._limits.vocab_size) or ()
        if found or self._model is None:
            return Proposal(cut_at_end(found, self._limits.enders)[0], asked, looked_up=bool(found))
        tokens, failure = await self._of_model(self._model, ids, self._clipped(wanted.model, room))
        return Proposal(tokens, asked, failure=failure)

    def _clipped(self, wanted: int, room: int) -> int:
        return clipped(wanted, remaining=room, engine_limit=self._limits.longest)

    async def _of_model(self, model: DraftLeaf, ids: Sequence[int], count: int) -> tuple[tuple[int, ...], str]:
        """The model's draft, or why there is none."""
        if count == 0:
            return (), ""
        try:
            raw = new_tokens(ids, await model.propose(ids, count), (), count)
        except Cancelled:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the draft does, the request goes on without it
            return self._give_up(error.reason if isinstance(error, LeafError) else "failed")
        draft = usable_draft(raw, count, self._limits.vocab_size)
        if draft is None:
            return self._give_up("invalid")
        if not draft:
            return self._give_up("empty")
        self._empty_drafts = 0
        return cut_at_end(draft, self._limits.enders)[0], ""

    def _give_up(self, reason: str) -> tuple[tuple[int, ...], str]:
        self._empty_drafts += 1
        if reason != "empty" or self._empty_drafts >= _EMPTY_DRAFTS:
            self._model = None
        return (), reason
