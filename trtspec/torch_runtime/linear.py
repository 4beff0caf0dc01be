"""Linear layers for few rows on a CPU.

A decode or verify pass has 1 to a few dozen rows, so that reading the weights is most of its cost. Two prepacked forms
are used; both accumulate in float32:

* half: FBGEMM's packed float16 weights. Used where every weight is a float16 number already (checkpoints stored in
  float16, most stored in bfloat16), so that nothing is lost. Half the bytes, and a pass over 5 rows costs about 1.3
  times one over 1. Its kernels for 1 and 2 rows add in another order than those for 3 and more (`exact_rows`).
* onednn: oneDNN's blocked float32 weights. A row's result does not depend on the other rows, bit for bit.

Anything else (CUDA, builds without these libraries) is `torch.nn.functional.linear`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

__all__ = ["Linear", "Packing", "best_packing", "exact_rows", "is_half_exact", "pack_linear"]

Packing = Literal["half", "onednn", "plain"]
Linear = Callable[[Tensor], Tensor]

_EXPECTED_ROWS = 8  # oneDNN chooses its weight layout for a number of rows
_HALF_BLOCK = 120  # FBGEMM splits rows into blocks of this many, then into kernels of 1 to 6 rows


def is_half_exact(weight: Tensor) -> bool:
    """True when float16 holds every value of `weight` exactly."""
    if weight.dtype == torch.float16:
        return True
    return all(torch.equal(rows.to(torch.float16).to(rows.dtype), rows) for rows in torch.split(weight, 4096))


def best_packing(weight: Tensor) -> Packing:
    """The fastest form that loses nothing for `weight` [out, in] on its device."""
    if weight.device.type != "cpu":
        return "plain"
    if _has_fbgemm() and is_half_exact(weight):
        return "half"
    return "onednn" if torch._C._has_mkldnn else "plain"


def pack_linear(weight: Tensor, bias: Tensor | None = None, packing: Packing | None = None) -> Linear:
    """A function [rows, in] → [rows, out] for `weight` [out, in]; `best_packing` unless `packing` is given."""
    form = packing or best_packing(weight)
    if form == "plain":
        return lambda rows: torch.nn.functional.linear(rows, weight, bias)
    full_bias = None if bias is None else bias.to(torch.float32)
    if form == "half":
        return _half(weight, full_bias)
    return _onednn(weight.to(torch.float32), full_bias)


def exact_rows(rows: int) -> int:
    """The number of rows to pad to, so that FBGEMM gives each row the same bits whatever its neighbours."""
    while _ends_in_small_kernel(rows % _HALF_BLOCK):
        rows += 1
    return rows


def _ends_in_small_kernel(rest: int) -> bool:
    """True when FBGEMM's partition of `rest` rows has a kernel of 1 or 2 rows (found by comparing bits)."""
    return rest in {1, 2, 7, 14} or (rest > 30 and rest % 6 in {1, 2})


def _has_fbgemm() -> bool:
    return "fbgemm" in torch.backends.quantized.supported_engines


def _half(weight: Tensor, bias: Tensor | None) -> Linear:
    packed = torch.ops.quantized.linear_prepack_fp16(weight.to(torch.float32).contiguous(), bias)
    apply = torch.ops.quantized.linear_dynamic_fp16.default
    return lambda rows: apply(rows, packed)


def _onednn(weight: Tensor, bias: Tensor | None) -> Linear:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _EXPECTED_ROWS)
    apply = torch.ops.mkldnn._linear_pointwise.default
    return lambda rows: apply(rows, packed, bias, "none", [], "")
