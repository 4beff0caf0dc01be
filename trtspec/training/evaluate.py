"""How many draft tokens the target accepts, from its recorded greedy answers.

With greedy decoding the target's answer is fixed, and a draft token is accepted exactly when it
equals the answer's token.  As long as all drafted tokens of a round are accepted, the draft has
seen the answer itself.  So the run of accepted tokens from any position is the run of positions
where the draft's best token, given the answer so far, is the answer's next token: one forward
pass over the answer gives the acceptance of every draft length exactly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trtspec.training.generate import Answer
from trtspec.training.network import hidden_states, scores

__all__ = ["Acceptance", "acceptance", "by_category", "by_position", "draft_matches", "simulate"]

Matches = NDArray[np.bool_]
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


def simulate(matches: Matches, draft_length: int) -> Acceptance:
    """The rounds that decode an answer whose token t the draft would guess iff ``matches[t]``.

    A round drafts at most as many tokens as the answer still has.
    """
    total = Acceptance()
    at = 0
    while at < len(matches):
        window = matches[at : at + draft_length]
        accepted = len(window) if window.all() else int(np.argmin(window))
        total += Acceptance(1, len(window), accepted)
        at += accepted + 1
    return total


def acceptance(matches: Iterable[Matches], draft_length: int) -> Acceptance:
    """The counts of all answers together."""
    return sum((simulate(one, draft_length) for one in matches), Acceptance())


def by_category(answers: Sequence[Answer], matches: Sequence[Matches], draft_length: int) -> Mapping[str, Acceptance]:
    """The counts of each category, in order of appearance."""
    counts: dict[str, Acceptance] = defaultdict(Acceptance)
    for answer, one in zip(answers, matches, strict=True):
        counts[answer.job.category] += simulate(one, draft_length)
    return dict(counts)


def by_position(matches: Iterable[Matches], draft_length: int) -> tuple[float | None, ...]:
    """Share of the rounds' first, second, … drafted token that is accepted, of those that were drafted.

    A token behind a refused one is drafted and not accepted; None where nothing was drafted.
    """
    drafted, accepted = np.zeros(draft_length, np.int64), np.zeros(draft_length, np.int64)
    for one in matches:
        at = 0
        while at < len(one):
            window = one[at : at + draft_length]
            run = len(window) if window.all() else int(np.argmin(window))
            drafted[: len(window)] += 1
            accepted[:run] += 1
            at += run + 1
    return tuple(int(a) / int(d) if d else None for a, d in zip(accepted, drafted, strict=True))


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
