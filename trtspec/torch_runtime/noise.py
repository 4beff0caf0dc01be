"""Random numbers that are fixed functions of a seed and a place: no state, so no order of computing changes them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["as_gumbel", "even", "gumbel", "places", "uniform"]

_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
_FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SHIFTS = (30, 27, 31)


def uniform(seed: int, position: int, stream: int = 0) -> float:
    """A number in [0, 1) that is a fixed function of its arguments; streams are independent of each other."""
    return (_mix(_place(seed, position) + stream * _STEP) >> 11) / (1 << 53)


def gumbel(seed: int, position: int, ids: Tensor) -> Tensor:
    """Standard Gumbel noise, float64, of every token in `ids` at `position`: a function of (seed, position, token).

    argmax(log p + noise) is a sample of p (the Gumbel-max trick). Two models that see the same noise tend to choose the
    same token wherever their distributions agree, without knowing of each other (Daliri, Musco, Suresh: "Coupling
    without Communication and Drafter-Invariant Speculative Decoding", 2024).
    """
    return as_gumbel(even(ids ^ _signed(_place(seed, position))))


def places(seed: int, positions: Sequence[int], ids: Tensor) -> Tensor:
    """What `even` takes for the tokens `ids` (row i at position i of `positions`, or the same ids in each)."""
    signed = torch.tensor([_signed(_place(seed, position)) for position in positions], device=ids.device)
    return ids ^ signed[:, None]


def even(places: Tensor) -> Tensor:
    """Numbers evenly spread over (0, 1), float64, fixed functions of `places` (int64)."""
    # 53 bits and a half: never 0, never 1
    bits = _mixed(places).bitwise_right_shift_(11).bitwise_and_((1 << 53) - 1)
    return bits.double().add_(0.5).mul_(2.0**-53)


def as_gumbel(even: Tensor) -> Tensor:
    """The standard Gumbel noise that the numbers stand for; overwrites them."""
    return even.log_().neg_().log_().neg_()


def _place(seed: int, position: int) -> int:
    return _mix((seed & _MASK) ^ _mix(position + _STEP))


def _mix(value: int) -> int:
    """SplitMix64's output function (Steele, Lea, Flood 2014)."""
    value = (value + _STEP) & _MASK
    value = ((value ^ (value >> _SHIFTS[0])) * _FACTORS[0]) & _MASK
    value = ((value ^ (value >> _SHIFTS[1])) * _FACTORS[1]) & _MASK
    return value ^ (value >> _SHIFTS[2])


def _mixed(values: Tensor) -> Tensor:
    """`_mix` of every element of an int64 tensor, whose arithmetic wraps; in one buffer, since it is large."""
    values = values + _signed(_STEP)
    buffer = torch.empty_like(values)
    for shift, factor in zip(_SHIFTS, (*_FACTORS, None), strict=True):
        # a logical shift to the right; torch's own keeps the sign
        torch.bitwise_right_shift(values, shift, out=buffer)
        values.bitwise_xor_(buffer.bitwise_and_((1 << (64 - shift)) - 1))
        if factor is not None:
            values.mul_(_signed(factor))
    return values


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
