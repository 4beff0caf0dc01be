"""A toy language whose exact distributions are known, and speculative answers to it, by the runtime's own functions.

Both models look at the last token only, so that the joint distribution of a few tokens is a product of table rows.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trtspec.torch_runtime.kv import KVShape, SequenceKV
from trtspec.torch_runtime.request import GenerationRequest, Sampling, Update
from trtspec.torch_runtime.sampling import candidates, choose_tokens, edited_rows
from trtspec.torch_runtime.sequence import Running

KV = KVShape(1, 1, 1)
PROMPT = (0,)


@dataclass(frozen=True)
class Toy:
    """Logits [last token, next token] of target and draft."""

    target: Tensor
    draft: Tensor

    @classmethod
    def of(cls, vocabulary: int, seed: int, apart: float = 1.0) -> Toy:
        """Two random tables; `apart` is how much the draft's logits differ."""
        generator = torch.Generator().manual_seed(seed)
        target = 1.5 * torch.randn((vocabulary, vocabulary), generator=generator)
        return cls(target, target + apart * torch.randn((vocabulary, vocabulary), generator=generator))

    def exact(self, sampling: Sampling, length: int) -> dict[tuple[int, ...], float]:
        """The chance of every sequence of `length` tokens after PROMPT from the target alone."""
        chances = {}
        for tokens in itertools.product(range(len(self.target)), repeat=length):
            chance, context = 1.0, list(PROMPT)
            for token in tokens:
                row = edited_rows(self.target[context[-1]][None], request(sampling, context), context, 0)[0]
                ids, of = candidates(row, sampling)
                chance *= float(of[ids == token].sum())
                context.append(token)
            chances[tokens] = chance
        return chances


def request(sampling: Sampling, context: Sequence[int]) -> GenerationRequest:
    return GenerationRequest(tuple(context), 1, sampling=sampling)


Verify = Callable[[GenerationRequest, Tensor], Sequence[int]]


def verified(of: GenerationRequest, logits: Tensor) -> Sequence[int]:
    """What the engine makes of a pass: the accepted part of the draft and one token more."""
    updates: list[Update] = []
    kv = SequenceKV(KV, len(of.prompt) + len(of.draft))
    kv.length = len(of.prompt) + len(of.draft)
    return Running(of, updates.append, lambda: False, kv).absorb(logits).tokens


def speculate(toy: Toy, sampling: Sampling, lengths: tuple[int, int], verify: Verify = verified) -> tuple[int, ...]:
    """The first `lengths[0]` tokens of an answer in rounds of `lengths[1]` sampled drafts, accepted by logits."""
    tokens, (wanted, drafted) = list(PROMPT), lengths
    while len(tokens) - len(PROMPT) < wanted:
        draft, rows = propose(toy, sampling, tokens, drafted)
        asked = GenerationRequest(tuple(tokens), drafted + 1, draft, sampling=sampling, draft_logits=rows)
        logits = toy.target[torch.tensor([*tokens, *draft])[len(tokens) - 1 :]]
        tokens += verify(asked, logits)
    return tuple(tokens[len(PROMPT) : len(PROMPT) + wanted])


def propose(
    toy: Toy, sampling: Sampling, tokens: Sequence[int], count: int
) -> tuple[tuple[int, ...], NDArray[np.float32]]:
    """`count` tokens that the draft draws after `tokens`, and the logits they were drawn from."""
    context = list(tokens)
    for _ in range(count):
        context += choose_tokens(toy.draft[context[-1]][None], request(sampling, context), context, 0)
    rows = toy.draft[torch.tensor(context)[len(tokens) - 1 : -1]]
    return tuple(context[len(tokens) :]), rows.numpy()


def counted(answers: Sequence[tuple[int, ...]], exact: dict[tuple[int, ...], float]) -> tuple[list[int], list[float]]:
    """Observed and expected counts, rare sequences (below 5 expected) taken together; an impossible one is an error."""
    counts = Counter(answers)
    assert not [tokens for tokens in counts if exact[tokens] == 0]
    common = [tokens for tokens, chance in exact.items() if chance * len(answers) >= 5]
    observed = [counts[tokens] for tokens in common]
    expected = [exact[tokens] * len(answers) for tokens in common]
    rest = len(answers) - sum(expected)
    if rest < 5:
        # too little for a cell of its own
        scale = sum(observed) / sum(expected)
        return observed, [count * scale for count in expected]
    return [*observed, len(answers) - sum(observed)], [*expected, rest]
