"""Choosing tokens from logits, with randomness that depends on (seed, position, token) alone.

The draw for a position is the same whether the position was reached token by token or inside a verified block, so a
sampled answer does not depend on the draft length, nor on what else is running. A draft that draws with the same seed
sees the same noise, which makes it agree with the target as often as two samplers can that do not talk (`noise`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from trtspec.torch_runtime.drawing import draw_rows
from trtspec.torch_runtime.noise import gumbel
from trtspec.torch_runtime.request import GenerationRequest, Sampling

__all__ = ["best_chances", "candidates", "choose_tokens", "edited_rows", "log_probs", "takes_the_best"]


def choose_tokens(logits: Tensor, request: GenerationRequest, context: Sequence[int], generated: int) -> list[int]:
    """The request's own choice at each row of `logits` [n, vocab].

    `context` holds all tokens up to the last row's, so row i follows `context[: len(context) - n + 1 + i]`; `generated`
    tokens of the first row's context are new in this request (for min_tokens).
    """
    if takes_the_best(request):
        chosen: list[int] = logits.argmax(-1).tolist()
        return chosen
    first = len(context) - logits.shape[0] + 1
    if not _edited(request):
        drawn = draw_rows(logits, request.sampling, range(first, first + logits.shape[0]))
        if drawn is not None:
            return drawn
    rows = edited_rows(logits, request, context, generated)
    return [_choose(row, request.sampling, first + index) for index, row in enumerate(rows)]


def takes_the_best(request: GenerationRequest) -> bool:
    """Whether the request's tokens are the likeliest ones of logits that nothing is done to."""
    return request.sampling.greedy and not _edited(request)


def edited_rows(logits: Tensor, request: GenerationRequest, context: Sequence[int], generated: int) -> list[Tensor]:
    """The rows of `logits` with penalties, bad words and min_tokens applied; arguments as of `choose_tokens`."""
    if not _edited(request):
        return list(logits)
    first = len(context) - logits.shape[0] + 1
    return [
        _edit(row.clone(), request, context[: first + index], generated + index) for index, row in enumerate(logits)
    ]


def log_probs(logits: Tensor, tokens: Sequence[int]) -> tuple[float, ...]:
    """The natural logarithm of the chance of token i in row i of `logits` [n, vocab], n at least len(tokens)."""
    rows = torch.log_softmax(logits[: len(tokens)].float(), -1)
    return tuple(float(rows[index, token]) for index, token in enumerate(tokens))


def best_chances(logits: Tensor) -> Tensor:
    """The chance of the likeliest token of each row [n] of `logits` [n, vocab], before temperature and penalties."""
    return logits.softmax(-1).amax(-1)


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
    ids, chances = candidates(row, sampling)
    return int(ids[int((chances.log() + gumbel(sampling.seed, position, ids)).argmax())])


def candidates(row: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Token ids that `sampling` leaves, and their chances (float64, sum 1): temperature, then top_k, then top_p."""
    ids = torch.nonzero(row > -torch.inf).squeeze(-1)
    if len(ids) == 0:  # everything is forbidden
        best = row.argmax().reshape(1)
        return best, torch.ones(1, dtype=torch.float64, device=row.device)
    values = row[ids].double() / (sampling.temperature if sampling.temperature is not None else 1.0)
    if 0 < sampling.top_k < len(ids):
        values, order = _best(values, sampling.top_k)
        ids = ids[order]
    chances = torch.softmax(values, -1)
    if 0.0 < sampling.top_p < 1.0:
        ordered, order = chances.sort(descending=True, stable=True)
        # the smallest set whose chance reaches top_p
        kept = int((ordered.cumsum(-1) < sampling.top_p).sum()) + 1
        ids, chances = ids[order[:kept]], ordered[:kept] / ordered[:kept].sum()
    return ids, chances


def _best(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest and where they stand; of equals the first ones, as a stable sort keeps them."""
    bound = values.topk(count).values[-1]
    above = torch.nonzero(values > bound).squeeze(-1)
    equal = torch.nonzero(values == bound).squeeze(-1)[: count - len(above)]
    order = torch.cat((above, equal))
    return values[order], order
