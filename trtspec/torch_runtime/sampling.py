"""Choosing tokens from logits, with randomness that depends on (seed, position) alone.

The draw for a position is the same whether the position was reached token by token or inside a verified block, so a
sampled answer does not depend on the draft length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from trtspec.torch_runtime.request import GenerationRequest, Sampling

__all__ = ["choose_tokens", "log_probs", "uniform"]

_MASK = (1 << 64) - 1


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) that is a fixed function of its arguments (SplitMix64 of both)."""
    state = _mix((seed & _MASK) ^ _mix(position + 0x9E3779B97F4A7C15))
    return (state >> 11) / (1 << 53)


def _mix(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def choose_tokens(logits: Tensor, request: GenerationRequest, context: Sequence[int], generated: int) -> list[int]:
    """The request's own choice at each row of `logits` [n, vocab].

    `context` holds all tokens up to the last row's, so row i follows `context[: len(context) - n + 1 + i]`; `generated`
    tokens of the first row's context are new in this request (for min_tokens).
    """
    if request.sampling.greedy and not _edited(request):
        chosen: list[int] = logits.argmax(-1).tolist()
        return chosen
    first = len(context) - logits.shape[0] + 1
    return [
        _choose(
            _edit(row.clone(), request, context[: first + index], generated + index), request.sampling, first + index
        )
        for index, row in enumerate(logits)
    ]


def log_probs(logits: Tensor, tokens: Sequence[int]) -> tuple[float, ...]:
    """The natural logarithm of the chance of token i in row i of `logits` [n, vocab], n at least len(tokens)."""
    rows = torch.log_softmax(logits[: len(tokens)].float(), -1)
    return tuple(float(rows[index, token]) for index, token in enumerate(tokens))


def _edited(request: GenerationRequest) -> bool:
    return request.sampling.penalised or bool(request.bad_words) or request.min_tokens > 0


def _edit(row: Tensor, request: GenerationRequest, context: Sequence[int], generated: int) -> Tensor:
    _penalise(row, request.sampling, context)
    for word in request.bad_words:
        head, last = word[:-1], word[-1]
        if len(head) == 0 or tuple(context[-len(head) :]) == head:
            row[last] = -torch.inf
    # an end id that the model does not have never comes
    if request.end_id is not None and 0 <= request.end_id < len(row) and generated < request.min_tokens:
        row[request.end_id] = -torch.inf
    return row


def _penalise(row: Tensor, sampling: Sampling, context: Sequence[int]) -> None:
    if not sampling.penalised:
        return
    counts = Counter(context)
    ids = torch.tensor(list(counts), device=row.device)
    times = torch.tensor(list(counts.values()), dtype=row.dtype, device=row.device)
    seen = row[ids]
    seen = torch.where(seen > 0, seen / sampling.repetition_penalty, seen * sampling.repetition_penalty)
    row[ids] = seen - sampling.presence_penalty - times * sampling.frequency_penalty


def _choose(row: Tensor, sampling: Sampling, position: int) -> int:
    if sampling.greedy:
        return int(row.argmax())
    scaled = row.double() / (sampling.temperature if sampling.temperature is not None else 1.0)
    values, ids = scaled.sort(descending=True, stable=True)
    if sampling.top_k > 0:
        values, ids = values[: sampling.top_k], ids[: sampling.top_k]
    chances = torch.softmax(values, -1)
    total = chances.cumsum(-1)
    if 0.0 < sampling.top_p < 1.0:
        # the smallest set whose chance reaches top_p
        kept = int((total < sampling.top_p).sum()) + 1
        total = total[:kept]
    point = uniform(sampling.seed, position) * float(total[-1])
    index = int(torch.searchsorted(total, point, right=True))
    return int(ids[min(index, len(total) - 1)])
