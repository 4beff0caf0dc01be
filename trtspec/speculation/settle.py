"""What a leaf's answer means, whether it echoes the prompt, leaves the end token out, or carries too much."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

__all__ = ["Settled", "cut_at_end", "first_piece", "new_tokens", "settle", "usable_draft"]

Ids = Sequence[int]


@dataclass(frozen=True)
class Settled:
    """The outcome of one round: its new tokens, how many of them were drafted, whether the answer ends here."""

    tokens: tuple[int, ...]
    accepted: int
    ended: bool


def new_tokens(prompt: Ids, returned: Ids, draft: Ids, limit: int) -> tuple[int, ...]:
    """`returned` without an echo of `prompt`.

    An answer longer than `limit` that starts with the prompt must be an echo. When both readings are possible by
    length (a prompt shorter than the draft), the one that agrees with `draft` counts; a leaf is asked not to echo.
    """
    whole = tuple(returned)
    # the first comparison spares most calls a copy of a long prompt
    if len(whole) < len(prompt) or whole[: len(prompt)] != tuple(prompt):
        return whole
    rest = whole[len(prompt) :]
    if len(whole) > limit:
        return rest
    return rest if _agrees(rest, draft) and not _agrees(whole, draft) else whole


def first_piece(prompt: Ids, returned: Ids) -> tuple[int, ...]:
    """The first piece of a stream without an echo of `prompt`.

    A piece has one token or a few, so one that holds the prompt and more is an echo; a prompt of one token is no
    evidence (" ha" may well be followed by " ha ha").
    """
    whole = tuple(returned)
    echo = len(whole) > len(prompt) > 1 and whole[: len(prompt)] == tuple(prompt)
    return whole[len(prompt) :] if echo else whole


def cut_at_end(ids: Ids, end_ids: Collection[int]) -> tuple[tuple[int, ...], bool]:
    """`ids` up to and with the first end id, and whether there was one."""
    for index, token in enumerate(ids):
        if token in end_ids:
            return tuple(ids[: index + 1]), True
    return tuple(ids), False


def settle(draft: Ids, new: Ids, end_ids: Sequence[int]) -> Settled:
    """The outcome of a round whose target returned `new` for `draft`; accepted is their longest common prefix.

    A target that returns a prefix of the draft and nothing of its own has left out an end token (some runtimes do):
    it is put back, because it counts as an output token, and as accepted if it was drafted.
    """
    tokens, ended = cut_at_end(new[: len(draft) + 1], end_ids)
    accepted = _common(draft, tokens)
    if ended or len(tokens) > len(draft) or accepted < len(tokens):
        return Settled(tokens, accepted, ended)
    if not end_ids:
        return Settled(tokens, accepted, ended=True)
    drafted_end = len(tokens) < len(draft) and draft[len(tokens)] in end_ids
    end = draft[len(tokens)] if drafted_end else end_ids[0]
    return Settled((*tokens, end), accepted + drafted_end, ended=True)


def usable_draft(raw: Ids, count: int, vocab_size: int | None) -> tuple[int, ...] | None:
    """`raw` when it can be sent to the target, None when it has too many ids or one that the target does not know."""
    top = vocab_size if vocab_size is not None else 1 << 31
    if len(raw) > count or any(not 0 <= token < top for token in raw):
        return None
    return tuple(raw)


def _common(draft: Ids, tokens: Ids) -> int:
    for index, (drafted, token) in enumerate(zip(draft, tokens, strict=False)):
        if drafted != token:
            return index
    return min(len(draft), len(tokens))


def _agrees(tokens: Ids, draft: Ids) -> bool:
    """Whether `tokens` can be an accepted part of `draft` and one token more."""
    return bool(tokens) and len(tokens) <= len(draft) + 1 and _common(draft, tokens) >= len(tokens) - 1
