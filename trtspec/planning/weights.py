"""Bytes of a weight by precision and quantization.

Only the linear layers inside the decoder blocks are quantized; embedding, output head and norms keep the model's type
(TensorRT-LLM `examples/quantization/quantize.py`: they stay in `--dtype` unless `--quantize_lm_head` is given;
docs/source/legacy/architecture/checkpoint.md).
"""

from __future__ import annotations

from collections.abc import Mapping

from trtspec.building.tensorrt.precision import resolved_dtype as converted_dtype
from trtspec.checkpoints import ModelConfig
from trtspec.spec import ModelSource

__all__ = [
    "QUANTIZED",
    "dtype_bytes",
    "quantization_of",
    "quantized_bytes",
    "resolved_dtype",
    "resolved_quantization",
    "weight_text",
]

_DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
# classes of parameters that a quantization changes
QUANTIZED = ("attention", "mlp", "experts")
# QuantAlgo of a quantized checkpoint → our name for the same storage
_ALGOS = {
    "FP8": "fp8", "FP8_PER_CHANNEL_PER_TOKEN": "fp8", "FP8_BLOCK_SCALES": "fp8", "NVFP4": "nvfp4",
    "W4A16_AWQ": "int4_awq", "W4A8_AWQ": "w4a8_awq", "W4A16_GPTQ": "int4_awq", "W4A16": "int4_wo",
    "W8A16": "int8_wo", "W8A16_GPTQ": "int8_wo", "INT8": "int8_wo", "W8A8_SQ_PER_CHANNEL": "int8_sq",
    "W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN": "int8_sq", "W8A8_SQ_PER_CHANNEL_PER_TENSOR_PLUGIN": "int8_sq",
    "W8A8_SQ_PER_TENSOR_PLUGIN": "int8_sq", "W8A8_SQ_PER_TENSOR_PER_TOKEN_PLUGIN": "int8_sq",
}  # fmt: skip
_BITS = {4: "int4_awq", 8: "int8_wo"}


def dtype_bytes(dtype: str) -> int:
    """Bytes of a number of type `dtype` (float32, float16, bfloat16); 2 for one that is not known."""
    return _DTYPE_BYTES.get(dtype, 2)


def quantized_bytes(quantization: str, dtype: str, *, group_size: int = 128, hidden: int = 4096) -> float:
    """Bytes that one weight of a linear layer takes, scales included.

    fp8 1; int8 1 and a 2-byte scale a row of `hidden` weights; int4 by rows likewise with 0.5; AWQ 0.5 and a 2-byte
    scale for each group (128 by default); nvfp4 0.5 and a 1-byte scale for each 16 weights (TensorRT-LLM
    docs/source/legacy/reference/memory.md and precision.md; NVIDIA/TensorRT-Model-Optimizer for the group scales).
    """
    row, group = 2 / hidden, 2 / group_size
    sizes: Mapping[str, float] = {
        "fp8": 1.0,
        "nvfp4": 0.5 + 1 / 16,
        "int4_awq": 0.5 + group,
        "w4a8_awq": 0.5 + group,
        "int8_sq": 1.0 + row,
        "int8_wo": 1.0 + row,
        "int4_wo": 0.5 + row,
    }
    return sizes.get(quantization, float(dtype_bytes(dtype)))


def weight_text(quantization: str, dtype: str, *, group_size: int = 128) -> str:
    """How `quantized_bytes` counts one weight, e.g. `0.5 + 2/128 (int4_awq)`."""
    texts = {
        "fp8": "1 (fp8)",
        "nvfp4": "0.5 + 1/16 (nvfp4)",
        "int4_awq": f"0.5 + 2/{group_size} (int4_awq)",
        "w4a8_awq": f"0.5 + 2/{group_size} (w4a8_awq)",
        "int8_sq": "1 + row scales (int8_sq)",
        "int8_wo": "1 + row scales (int8_wo)",
        "int4_wo": "0.5 + row scales (int4_wo)",
    }
    return texts.get(quantization, f"{dtype_bytes(dtype)} ({dtype})")


def resolved_dtype(source: ModelSource, config: ModelConfig) -> str:
    """The type that a TensorRT engine computes in."""
    return converted_dtype(source.dtype, config.dtype)


def resolved_quantization(source: ModelSource, config: ModelConfig) -> str:
    """The quantization of the linear layers: the spec's, else that of a checkpoint that is quantized already."""
    if source.quantization != "none" or config.quant is None:
        return source.quantization
    return quantization_of(config.quant.algo, config.quant.bits)


def quantization_of(algo: str | None, bits: int | None = None) -> str:
    """Our name for the storage that a QuantAlgo of TensorRT-LLM means, else for weights of `bits` bits; or "none"."""
    return _ALGOS.get(algo or "") or _BITS.get(bits or 16, "none")
