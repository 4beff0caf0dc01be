"""The precision that a role's engine will have: QuantAlgo names of its weights and of its KV cache."""

from __future__ import annotations

from trtspec.rules.facts import Facts, ModelRole
from trtspec.toolchain.flags import FORMATS

__all__ = ["computation_dtype", "kv_algo", "weight_algo"]


def weight_algo(facts: Facts, role: ModelRole) -> str | None:
    """The QuantAlgo of a role's weights: asked for, else the checkpoint's own; None for plain weights or unknown."""
    asked = facts.source(role).quantization
    if asked != "none":
        return FORMATS[asked]
    config = facts.surveys[role].config
    return config.quant.algo if config is not None and config.quant is not None else None


def kv_algo(facts: Facts, role: ModelRole) -> str | None:
    """FP8 or INT8 where a role's KV cache is quantized: asked for, else as the checkpoint says; None: as computed."""
    asked = facts.source(role).kv_cache_dtype
    if asked != "auto":
        return asked.upper()
    config = facts.surveys[role].config
    return config.quant.kv_cache_algo if config is not None and config.quant is not None else None


def computation_dtype(facts: Facts, role: ModelRole) -> str | None:
    """The type that a role computes in: the spec's, else the checkpoint's; None: neither says."""
    asked = facts.source(role).dtype
    if asked != "auto":
        return asked
    config = facts.surveys[role].config
    return config.dtype if config is not None else None
