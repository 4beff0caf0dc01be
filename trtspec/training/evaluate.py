"""How many draft tokens the target accepts, from its recorded greedy answers.

With greedy decoding the target's answer is fixed, and a draft token is accepted exactly when it
equals the answer's token.  As long as all drafted tokens of a round are accepted, the draft has
seen the answer itself.  So the run of accepted tokens from any position is the run of positions
where the draft's best token, given the answer so far, is the answer's next token: one forward
pass over the answer gives the acceptance of every draft length exactly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from trtspec.training.generate import Answer

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

__all__ = ["Acceptance", "acceptance", "by_category", "draft_matches", "simulate"]

Matches = NDArray[np.bool_]


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


@torch.inference_mode()
def draft_matches(
    draft: LlamaForCausalLM,
    answers: Sequence[Answer],
    to_draft: Callable[[NDArray[np.int64]], torch.Tensor] = torch.from_numpy,
) -> list[Matches]:
    """For each answer, at which positions [T] the draft's best token is the answer's.

    ``to_draft`` turns token ids into those of a draft with a restricted vocabulary; an id outside
    it must become negative, and then never matches.
    """
    return [_matches(draft, answer, to_draft) for answer in answers]


def _matches(
    draft: LlamaForCausalLM,
    answer: Answer,
    to_draft: Callable[[NDArray[np.int64]], torch.Tensor],
) -> Matches:
    prompt = np.array(answer.job.prompt, dtype=np.int64)
    ids = to_draft(np.concatenate([prompt, answer.tokens]))
    hidden = draft.model(ids[None, :-1].clamp_min(0), use_cache=False).last_hidden_state
    best = draft.lm_head(hidden[0, len(prompt) - 1 :]).argmax(-1)
    return np.asarray((best == ids[len(prompt) :]).numpy(), dtype=np.bool_)
