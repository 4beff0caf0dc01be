"""The output head, over the whole vocabulary or, for a draft, over its frequent tokens only.

A draft only proposes, the target decides: a token that the draft can never propose costs acceptance where the target
wants it, and nothing else. Most of a small draft's time goes into reading a head of tens of thousands of rows.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from trtspec.torch_runtime.linear import Weights, best_packing, pack_linear

__all__ = ["output_head"]

Head = Callable[[Tensor], Tensor]


def output_head(weight: Tensor, ids: Tensor | None = None, weights: Weights = "exact") -> Head:
    """A function from hidden rows [n, hidden] to logits [n, vocab]; -inf outside `ids` when they are given."""
    form = best_packing(weight, weights)
    if ids is None:
        return pack_linear(weight, packing=form)
    apply, size = pack_linear(weight[ids], packing=form), weight.shape[0]

    def restricted(rows: Tensor) -> Tensor:
        logits = torch.full((rows.shape[0], size), -torch.inf)
        return logits.index_copy_(1, ids, apply(rows))

    return restricted
