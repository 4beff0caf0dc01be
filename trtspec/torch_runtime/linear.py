"""Linear layers on a CPU.

A decode or verify pass has 1 to a few dozen rows, so that reading the weights is most of its cost; a prompt has
hundreds. Three prepacked forms are used for both:

* half: FBGEMM's packed float16 weights, adding in float32. Used where every weight is a float16 number already
  (checkpoints stored in float16, most stored in bfloat16), so that nothing is lost, or where `float16` is asked for.
  Half the bytes, and a pass over 5 rows costs about 1.3 times one over 1. Its kernels for 1 and 2 rows add in another
  order than those for 3 and more (`exact_rows`).
* onednn: oneDNN's blocked float32 weights. A row's result does not depend on the other rows, bit for bit.
* int8: FBGEMM's packed 8-bit weights, a scale for each output; rows are rounded to 8 bits too, a scale for each row (so
  that a row's result does not depend on the other rows: products are added as whole numbers). Only where it is asked
  for, because outputs change. On one core with VNNI these layers take about 0.65 of the half form's time over
  1 row, 0.5 over 5.

Anything else (CUDA, builds without these libraries) is `torch.nn.functional.linear`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

__all__ = ["Linear", "Packing", "Weights", "best_packing", "exact_rows", "is_half_exact", "over_rows", "pack_linear"]

Packing = Literal["half", "onednn", "int8", "plain"]
Weights = Literal["exact", "float16", "int8"]  # what may be lost when weights are packed on a CPU
Linear = Callable[[Tensor], Tensor]

_EXPECTED_ROWS = 8  # oneDNN chooses its weight layout for a number of rows
_TINY = 1e-30  # a row of zeros is divided by this
_HALF_BLOCK = 120  # FBGEMM splits rows into blocks of this many, then into kernels of 1 to 6 rows


def is_half_exact(weight: Tensor) -> bool:
    """True when float16 holds every value of `weight` exactly."""
    if weight.dtype == torch.float16:
        return True
    return all(torch.equal(rows.to(torch.float16).to(rows.dtype), rows) for rows in torch.split(weight, 4096))


def best_packing(weight: Tensor, weights: Weights = "exact") -> Packing:
    """The fastest form for `weight` [out, in] on its device that loses no more than `weights` allows."""
    if weight.device.type != "cpu":
        return "plain"
    if _has_fbgemm():
        if weights == "int8":
            return "int8"
        if weights == "float16" or is_half_exact(weight):
            return "half"
    return "onednn" if torch._C._has_mkldnn else "plain"


def pack_linear(weight: Tensor, bias: Tensor | None = None, packing: Packing | None = None) -> Linear:
    """A function [rows, in] → [rows, out] for `weight` [out, in]; `best_packing` unless `packing` is given."""
    form = packing or best_packing(weight)
    if form == "plain":
        return lambda rows: torch.nn.functional.linear(rows, weight, bias)
    full_bias = None if bias is None else bias.to(torch.float32)
    if form == "int8":
        return _int8(weight.to(torch.float32), full_bias)
    if form == "half":
        return _half(weight, full_bias)
    return _onednn(weight.to(torch.float32), full_bias)


def over_rows(linear: Linear, hidden: Tensor) -> Tensor:
    """`linear`, which takes rows [n, in], on hidden states [..., in]."""
    flat = linear(hidden.reshape(-1, hidden.shape[-1]))
    return flat.view(*hidden.shape[:-1], flat.shape[-1])


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


def _int8(weight: Tensor, bias: Tensor | None) -> Linear:
    """Symmetric on both sides: largest magnitudes become 127 (activations 63 where sums of products could overflow)."""
    scales = weight.abs().amax(1).clamp_min(_TINY) / 127
    with warnings.catch_warnings():  # torch 2.13 announces another way to make these tensors, but has none yet
        warnings.simplefilter("ignore")
        whole = torch.quantize_per_channel(weight, scales.double(), torch.zeros(len(weight)).long(), 0, torch.qint8)
    packed = torch.ops.quantized.linear_prepack(whole, None)
    steps = 127 if torch.cpu._is_vnni_supported() else 63
    apply = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default

    def rows_of_8_bits(rows: Tensor) -> Tensor:
        largest = torch.linalg.vector_norm(rows, torch.inf, 1, keepdim=True).clamp_min_(_TINY)
        product: Tensor = apply(rows / largest, 1 / steps, steps + 1, packed).mul_(largest)
        return product if bias is None else product.add_(bias)

    return rows_of_8_bits
