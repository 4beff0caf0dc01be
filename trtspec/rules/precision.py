"""The precision that a role's engine will have: QuantAlgo names of its weights and of its KV cache."""

from __future__ import annotations

from trtspec.rules.facts import Facts, ModelRole

__all__ = ["ALGOS", "FP8_FAMILY", "computation_dtype", "kv_algo", "weight_algo"]

# quantization in the spec → QuantAlgo (examples/quantization/quantize.py and modeling_utils of TensorRT-LLM 1.2)
ALGOS: dict[str, str] = {
    "fp8": "FP8",
    "nvfp4": "NVFP4",
    "int4_awq": "W4A16_AWQ",
    "w4a8_awq": "W4A8_AWQ",
    "int8_sq": "W8A8_SQ_PER_CHANNEL",
    "int8_wo": "W8A16",
    "int4_wo": "W4A16",
}
# weights with which an FP8 KV cache keeps paged context attention (tensorrt_llm/builder.py)
FP8_FAMILY = ("FP8", "W4A8_AWQ", "NVFP4")


def weight_algo(facts: Facts, role: ModelRole) -> str | None:
    """The QuantAlgo of a role's weights: asked for, else the checkpoint's own; None for plain weights or unknown."""
    asked = facts.source(role).quantization
    if asked != "none":
        return ALGOS[asked]
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
