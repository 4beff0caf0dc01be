"""Answers as training batches over the tokens that occur in them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trtspec.training.generate import Answer

__all__ = ["Batch", "Vocabulary", "batch_of", "batches", "groups"]


@dataclass(frozen=True)
class Vocabulary:
    """The tokens that occur: ``ids`` [R] of the full vocabulary, ``index`` [V] with -1 for absent.

    The most frequent tokens come first.

    Training computes the softmax over these R tokens only; a token that never occurs cannot be
    learnt anyway, and most of a 49152-row output head is never touched by half a million tokens.
    """

    ids: Tensor
    index: Tensor

    @staticmethod
    def of(answers: Sequence[Answer], size: int, labels: int = 2) -> Vocabulary:
        """Tokens in any prompt or answer, or among the ``labels`` best of any position."""
        parts = [np.array(answer.job.prompt) for answer in answers]
        parts += [part for answer in answers for part in (answer.tokens, answer.top_ids[:, :labels].ravel())]
        count = np.bincount(np.concatenate(parts).astype(np.int64), minlength=size)
        order = np.argsort(-count, kind="stable")
        ids = torch.from_numpy(order[: np.count_nonzero(count)])
        index = torch.full((size,), -1, dtype=torch.long)
        index[ids] = torch.arange(len(ids))
        return Vocabulary(ids, index)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Batch:
    """Sequences padded on the right, ids in the restricted vocabulary.

    ``tokens`` [B, T]; ``rows`` and ``columns`` [N] point to the N positions whose next token is
    part of an answer; ``labels`` [N, k] are the target's best tokens there, the best first, and
    ``weights`` [N, k] their probabilities, which sum to one over the labels that are in the
    vocabulary (the others have label 0 and weight 0).
    """

    tokens: Tensor
    rows: Tensor
    columns: Tensor
    labels: Tensor
    weights: Tensor

    def to(self, device: torch.device) -> Batch:
        """The same on a device."""
        return Batch(*(getattr(self, field.name).to(device) for field in fields(self)))


def batches(answers: Sequence[Answer], vocabulary: Vocabulary, tokens: int, rng: random.Random) -> Iterator[Batch]:
    """One pass over the answers in random batches of about ``tokens`` positions of like length."""
    for group in groups(answers, tokens, rng):
        yield batch_of(group, vocabulary)


def groups(answers: Sequence[Answer], tokens: int, rng: random.Random) -> list[list[Answer]]:
    """One pass over the answers in random groups of like length, of about ``tokens`` positions with their padding."""
    order = sorted(answers, key=lambda answer: _length(answer) + rng.random() * 24)
    found: list[list[Answer]] = [[]]
    for answer in order:
        if found[-1] and _length(answer) * (len(found[-1]) + 1) > tokens:
            found.append([])
        found[-1].append(answer)
    rng.shuffle(found)
    return found


def _length(answer: Answer) -> int:
    return len(answer.job.prompt) + len(answer.tokens)


def batch_of(answers: Sequence[Answer], vocabulary: Vocabulary) -> Batch:
    """Some answers as one batch."""
    # The last token of an answer is never an input: nothing follows it.
    inputs = [np.concatenate([answer.job.prompt, answer.tokens[:-1]]) for answer in answers]
    padded = np.zeros((len(answers), max(map(len, inputs))), dtype=np.int64)
    for row, ids in zip(padded, inputs, strict=True):
        row[: len(ids)] = ids
    columns = [len(a.job.prompt) - 1 + np.arange(len(a.tokens)) for a in answers]
    rows = [np.full(len(a.tokens), i) for i, a in enumerate(answers)]
    labels = vocabulary.index[torch.from_numpy(np.concatenate([a.top_ids for a in answers]).astype(np.int64))]
    weights = torch.from_numpy(_probabilities(answers)).masked_fill(labels < 0, 0.0)
    return Batch(
        # A padding id outside the vocabulary would index row -1; any row does, nobody looks at it.
        tokens=vocabulary.index[torch.from_numpy(padded)].clamp_min(0),
        rows=torch.from_numpy(np.concatenate(rows)),
        columns=torch.from_numpy(np.concatenate(columns)),
        labels=labels.clamp_min(0),
        weights=weights / weights.sum(-1, keepdim=True),
    )


def _probabilities(answers: Sequence[Answer]) -> NDArray[np.float32]:
    logprobs = np.concatenate([answer.top_logprobs for answer in answers])
    return np.asarray(np.exp(logprobs.astype(np.float32)), dtype=np.float32)
