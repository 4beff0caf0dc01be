"""Drawing tokens for many rows at once: `sampling`'s rules as tensor operations over whole blocks of logits.

A vocabulary has tens of thousands of tokens, of which a row's draw concerns a few. So rows are cut to their likeliest
tokens first (top_k, top_p), or, where neither is set, noise is turned into Gumbel noise (two logarithms) only where the
token could win with it. The token drawn is the one that `sampling` would draw row by row, but for differences in the
sixteenth digit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from trtspec.torch_runtime.noise import as_gumbel, even, places
from trtspec.torch_runtime.request import Sampling

__all__ = ["draw_rows"]

_NUCLEUS = 256  # tokens in which a nucleus is looked for first
_LEADERS = 64  # likeliest tokens whose best draw the others have to beat


def draw_rows(logits: Tensor, sampling: Sampling, positions: Sequence[int]) -> list[int] | None:
    """The token at each row of `logits` [n, vocab]; None where ties or missing tokens need a closer look.

    `sampling` is neither greedy nor penalised.
    """
    if 0 < sampling.top_k < logits.shape[1]:
        best = _best(logits, sampling.top_k)
        if best is None:
            return None
        chances = torch.softmax(best[0].double() / _temperature(sampling), -1)
        return _drawn(*_nucleus(chances, best[1], sampling.top_p), sampling, positions)
    chances = torch.softmax(logits.double() / _temperature(sampling), -1)
    if not bool((chances.amax(-1) > 0).all()):
        return None
    if 0.0 < sampling.top_p < 1.0:
        return _from_nucleus(chances, sampling, positions)
    return _from_all(chances, sampling, positions)


def _temperature(sampling: Sampling) -> float:
    return 1.0 if sampling.temperature is None else sampling.temperature


def _best(logits: Tensor, count: int) -> tuple[Tensor, Tensor] | None:
    """The `count` largest of each row and their ids in ascending order; None where they are not unique."""
    values, ids = logits.topk(count)
    bound = values[:, -1:]
    if bool(((logits >= bound).sum(-1) > count).any()) or bool((bound == -torch.inf).any()):
        return None
    ids, _ = ids.sort()
    return logits.gather(-1, ids), ids


def _nucleus(chances: Tensor, ids: Tensor, top_p: float) -> tuple[Tensor, Tensor]:
    """The rows' smallest sets of tokens whose chance reaches `top_p`: chances (0 outside, sum 1) and ids."""
    if not 0.0 < top_p < 1.0:
        return chances, ids
    ordered, order = chances.sort(descending=True, stable=True)
    ordered = ordered.masked_fill(~_within(ordered, top_p), 0.0)
    return ordered / ordered.sum(-1, keepdim=True), ids.gather(-1, order)


def _within(ordered: Tensor, top_p: float) -> Tensor:
    """Which of the chances in descending order belong to the nucleus."""
    count = (ordered.cumsum(-1) < top_p).sum(-1, keepdim=True) + 1
    return torch.arange(ordered.shape[-1], device=ordered.device) < count


def _from_nucleus(chances: Tensor, sampling: Sampling, positions: Sequence[int]) -> list[int]:
    width = _NUCLEUS
    while width < chances.shape[1]:
        values, ids = chances.topk(width)
        kept = _within(values, sampling.top_p)
        # equal chances at the edge of what was looked at: which of them belong in is not known yet
        last = values.masked_fill(~kept, torch.inf).amin(-1)
        if bool((last > values[:, -1]).all()):
            ids, _ = ids.sort()
            return _drawn(*_nucleus(chances.gather(-1, ids), ids, sampling.top_p), sampling, positions)
        width *= 8
    every = torch.arange(chances.shape[1], device=chances.device).expand_as(chances)
    return _drawn(*_nucleus(chances, every, sampling.top_p), sampling, positions)


def _drawn(chances: Tensor, ids: Tensor, sampling: Sampling, positions: Sequence[int]) -> list[int]:
    noise = as_gumbel(even(places(sampling.seed, positions, ids)))
    winners: list[int] = ids.gather(-1, (chances.log() + noise).argmax(-1, keepdim=True)).squeeze(-1).tolist()
    return winners


def _from_all(chances: Tensor, sampling: Sampling, positions: Sequence[int]) -> list[int]:
    """Every token may win; only those whose noise is large enough to beat the leaders are compared."""
    width = min(_LEADERS, chances.shape[1])
    leaders, ids = chances.topk(width)
    scores = leaders.log() + as_gumbel(even(places(sampling.seed, positions, ids)))
    to_beat = scores.amax(-1) - leaders[:, -1].log()
    every = torch.arange(chances.shape[1], device=chances.device)
    # noise g beats it where g > to_beat, that is where the even number is above exp(-exp(-to_beat)); a little below
    # that, so that rounding loses nobody
    bounds = [math.exp(-math.exp(-value)) * (1 - 1e-9) for value in to_beat.tolist()]
    rows = zip(positions, chances, bounds, ids, strict=True)
    # row by row: the numbers of one row stay in a core's cache
    return [
        _winner(row, even(places(sampling.seed, [position], every))[0], bound, leading)
        for position, row, bound, leading in rows
    ]


def _winner(chances: Tensor, numbers: Tensor, bound: float, leaders: Tensor) -> int:
    ids, _ = torch.cat((leaders, torch.nonzero(numbers > bound).squeeze(-1))).sort()
    return int(ids[int((chances[ids].log() + as_gumbel(numbers[ids])).argmax())])
