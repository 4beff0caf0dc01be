"""How many draft tokens the target accepts, from its recorded greedy answers.

With greedy decoding the target's answer is fixed, and a draft token is accepted exactly when it
equals the answer's token.  As long as all drafted tokens of a round are accepted, the draft has
seen the answer itself.  So the run of accepted tokens from any position is the run of positions
where the draft's best token, given the answer so far, is the answer's next token: one forward
pass over the answer gives the accepted tokens of every draft length exactly. Drafted ones too, but
that a draft which wrongly guesses the end is shorter in a serving loop than it is counted here.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from trtspec.training.generate import Answer
from trtspec.training.network import hidden_states, scores

__all__ = [
    "Acceptance",
    "Ending",
    "acceptance",
    "by_category",
    "by_position",
    "draft_matches",
    "ending",
    "simulate",
]

Matches = NDArray[np.bool_]
Ending = Literal["known", "token", "limit"]
_TOGETHER = 8  # answers in one pass


@dataclass(frozen=True)
class Acceptance:
    """Counts over rounds.

    **Formula:** rate = accepted / drafted; mean length = 1 + accepted / rounds, because every
    round also yields one token of the target.
    """

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0

    @property
    def rate(self) -> float | None:
        """Accepted share of the drafted tokens; None when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def mean_length(self) -> float | None:
        """Tokens per round; None without rounds."""
        return 1 + self.accepted / self.rounds if self.rounds else None

    def __add__(self, other: Acceptance) -> Acceptance:
        return Acceptance(
            self.rounds + other.rounds,
            self.drafted + other.drafted,
            self.accepted + other.accepted,
        )


def ending(answer: Answer, end_ids: Collection[int]) -> Ending:
    """How a serving loop meets the end of an answer: an end token that it does not foresee, or the request's limit."""
    return "token" if len(answer.tokens) and int(answer.tokens[-1]) in end_ids else "limit"


def simulate(matches: Matches, draft_length: int, end: Ending = "known") -> Acceptance:
    """The rounds that decode an answer whose token t the draft would guess iff ``matches[t]``.

    ``end`` tells what the loop knows of the answer's end. "known": no round drafts more tokens than the answer still
    has. As a serving loop counts: before an end "token" a round drafts its whole length, unless all that is left is
    guessed and so the end token too; before a "limit" a round leaves room for the target's own token, and one that has
    room for nothing else is not counted.
    """
    rounds = list(_rounds(matches, draft_length, end))
    return Acceptance(len(rounds), sum(drafted for drafted, _ in rounds), sum(accepted for _, accepted in rounds))


def _rounds(matches: Matches, draft_length: int, end: Ending) -> Iterator[tuple[int, int]]:
    """Drafted and accepted tokens of each round."""
    at = 0
    while at < len(matches):
        left = len(matches) - at
        window = matches[at : at + min(draft_length, left - 1 if end == "limit" else left)]
        accepted = len(window) if window.all() else int(np.argmin(window))
        unforeseen = end == "token" and accepted < left
        if len(window):
            yield draft_length if unforeseen else len(window), accepted
        at += accepted + 1


def acceptance(
    matches: Iterable[Matches], draft_length: int, endings: Iterable[Ending] = itertools.repeat("known")
) -> Acceptance:
    """The counts of all answers together."""
    pairs = zip(matches, endings)  # noqa: B905 - the endings may be without end
    return sum((simulate(one, draft_length, end) for one, end in pairs), Acceptance())


def by_category(
    answers: Sequence[Answer], matches: Sequence[Matches], draft_length: int, end_ids: Collection[int]
) -> Mapping[str, Acceptance]:
    """The counts of each category as a serving loop counts, in order of appearance."""
    counts: dict[str, Acceptance] = defaultdict(Acceptance)
    for answer, one in zip(answers, matches, strict=True):
        counts[answer.job.category] += simulate(one, draft_length, ending(answer, end_ids))
    return dict(counts)


def by_position(
    matches: Iterable[Matches], draft_length: int, endings: Iterable[Ending] = itertools.repeat("known")
) -> tuple[float | None, ...]:
    """Share of the rounds' first, second, … drafted token that is accepted, of those that were drafted.

    A token behind a refused one is drafted and not accepted; None where nothing was drafted.
    """
    totals = np.zeros((2, draft_length), np.int64)
    for one, end in zip(matches, endings):  # noqa: B905 - the endings may be without end
        for drafted, accepted in _rounds(one, draft_length, end):
            totals[0, :drafted] += 1
            totals[1, :accepted] += 1
    return tuple(int(right) / int(all_) if all_ else None for all_, right in totals.T)


@torch.inference_mode()
def draft_matches(
    network: Any,
    answers: Sequence[Answer],
    to_draft: Callable[[NDArray[np.int64]], torch.Tensor] = torch.from_numpy,
    proposed: torch.Tensor | None = None,
) -> list[Matches]:
    """For each answer, at which positions [T] the draft's best token is the answer's.

    ``to_draft`` turns token ids into those of a draft with a restricted vocabulary; an id outside
    it must become negative, and then never matches. With ``proposed`` [R] the draft proposes only
    these of its ids.
    """
    order = sorted(range(len(answers)), key=lambda at: len(answers[at].job.prompt) + len(answers[at].tokens))
    found: dict[int, Matches] = {}
    for first in range(0, len(order), _TOGETHER):
        places = order[first : first + _TOGETHER]
        found.update(zip(places, _matches(network, [answers[at] for at in places], to_draft, proposed), strict=True))
    return [found[at] for at in range(len(answers))]


def _matches(
    network: Any,
    answers: Sequence[Answer],
    to_draft: Callable[[NDArray[np.int64]], torch.Tensor],
    proposed: torch.Tensor | None,
) -> Iterator[Matches]:
    rows = [to_draft(np.concatenate([np.array(one.job.prompt, dtype=np.int64), one.tokens])) for one in answers]
    # padding is on the right, where causal attention never looks
    padded = torch.nn.utils.rnn.pad_sequence([row[:-1].clamp_min(0) for row in rows], batch_first=True)
    hidden = hidden_states(network, padded.to(network.device))
    for row, states, answer in zip(rows, hidden, answers, strict=True):
        start = len(answer.job.prompt) - 1
        best = scores(network, states[start : start + len(answer.tokens)], proposed).argmax(-1)
        best = (best if proposed is None else proposed[best]).cpu()
        yield np.asarray((best == row[start + 1 :]).numpy(), dtype=np.bool_)
