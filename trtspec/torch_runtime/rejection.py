"""Acceptance by the draft's logits: rejection sampling, after which the output has exactly the target's distribution.

A drafted token d with chance p(d) in the draft and q(d) in the target is accepted with chance min(1, q(d)/p(d)); after
a rejection the token is drawn from max(0, q - p), normalised; after a whole accepted draft one more is drawn from q
(Leviathan, Kalman, Matias: "Fast Inference from Transformers via Speculative Decoding", 2023, algorithm 1 and
appendix A.1). p and q are taken after temperature, top_k, top_p, penalties, bad words and min_tokens, applied to both
models' logits alike.

The three draws of a position (the draft's own, the acceptance, the one after a rejection) come from streams that are
independent of each other. What a draft proposed behind a rejected token influences nothing that is kept; where it may
influence how long the next draft is (a policy that counts it), the next draft needs a seed of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trtspec.torch_runtime.noise import uniform
from trtspec.torch_runtime.request import GenerationRequest
from trtspec.torch_runtime.sampling import candidates, choose_tokens, edited_rows

__all__ = ["verify_by_logits"]

_ACCEPTANCE, _RESIDUAL = 1, 2


def verify_by_logits(
    logits: Tensor, request: GenerationRequest, context: Sequence[int], generated: int
) -> tuple[int, list[int]]:
    """(accepted tokens, the accepted ones and one more), from the target's `logits` [len(draft) + 1, vocab].

    `request.draft_logits` [at least len(draft), vocab of the draft] are those that `request.draft` was drawn from. The
    other arguments are as of `choose_tokens`.
    """
    draft, sampling = request.draft, request.sampling
    assert request.draft_logits is not None
    first = len(context) - logits.shape[0] + 1
    theirs = _as_wide(torch.as_tensor(request.draft_logits)[: len(draft)], logits)
    before = context[: len(context) - 1]
    target_rows, draft_rows = (edited_rows(part, request, before, generated) for part in (logits[:-1], theirs))
    for index, token in enumerate(draft):
        q, p = _dense(target_rows[index], request), _dense(draft_rows[index], request)
        position = first + index
        if not uniform(sampling.seed, position, _ACCEPTANCE) * float(p[token]) < float(q[token]):
            return index, [*draft[:index], _residual(q, p, uniform(sampling.seed, position, _RESIDUAL))]
    return len(draft), [*draft, *choose_tokens(logits[-1:], request, context, generated + len(draft))]


def _as_wide(rows: Tensor, logits: Tensor) -> Tensor:
    """The draft's rows with the target's width: padding of the vocabulary may differ, no draft proposes from it."""
    wide = torch.full((rows.shape[0], logits.shape[1]), -torch.inf, dtype=logits.dtype, device=logits.device)
    width = min(rows.shape[1], logits.shape[1])
    wide[:, :width] = rows[:, :width].to(logits)
    return wide


def _dense(row: Tensor, request: GenerationRequest) -> Tensor:
    chances = torch.zeros(row.shape[0], dtype=torch.float64, device=row.device)
    ids, values = candidates(row, request.sampling)
    return chances.index_copy_(0, ids, values)


def _residual(q: Tensor, p: Tensor, point: float) -> int:
    """The token at `point` (0 to 1) of max(0, q - p), normalised; of q where p covers it all but for rounding."""
    left = (q - p).clamp_min(0)
    total = left.cumsum(-1)
    if float(total[-1]) <= 0:
        total = q.cumsum(-1)
    index = int(torch.searchsorted(total, point * float(total[-1]), right=True))
    return min(index, len(q) - 1)
