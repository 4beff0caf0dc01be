"""Random numbers that are fixed functions of a seed and a place: no state, so no order of computing changes them."""

from __future__ import annotations

from torch import Tensor

__all__ = ["gumbel", "uniform"]

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
    bits = _mixed(ids ^ _signed(_place(seed, position)))
    # 53 bits and a half: never 0, never 1
    even = ((bits >> 11) & ((1 << 53) - 1)).double().add_(0.5).mul_(2.0**-53)
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
    """`_mix` of every element of an int64 tensor, whose arithmetic wraps."""
    values = values + _signed(_STEP)
    values = (values ^ _shifted(values, _SHIFTS[0])) * _signed(_FACTORS[0])
    values = (values ^ _shifted(values, _SHIFTS[1])) * _signed(_FACTORS[1])
    return values ^ _shifted(values, _SHIFTS[2])


def _shifted(values: Tensor, bits: int) -> Tensor:
    """A logical shift to the right; torch's own keeps the sign."""
    return (values >> bits) & ((1 << (64 - bits)) - 1)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
