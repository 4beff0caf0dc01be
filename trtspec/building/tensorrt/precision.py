"""The precision of an engine: computation type, quantized weights, KV cache, and which program makes it.

What silently turns paged context FMHA off, without which an engine cannot take draft tokens, is refused here as well as
by the rules of `trtspec check`: an INT8 KV cache, and an FP8 one over weights outside the FP8 family (tensorrt_llm/
builder.py, `build`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from trtspec.checkpoints.config import ModelConfig
from trtspec.checkpoints.quantization import QuantizationFacts
from trtspec.errors import Problem
from trtspec.spec import ModelSource
from trtspec.toolchain.families import WEIGHT_ONLY, Family
from trtspec.toolchain.flags import FORMATS, FP8_FAMILY

__all__ = ["Precision", "Route", "precision_problems", "resolve_precision", "resolved_dtype"]

Route = Literal["converter", "quantizer"]
# ModelOpt's export of a Hugging Face folder → the flag of Llama's converter that reads it; public use:
# --use_fp8 and --use_nvfp4 with nvidia/…-FP8 and …-NVFP4 checkpoints on TensorRT-LLM 1.1
_MODELOPT_FLAGS = {"FP8": "--use_fp8", "NVFP4": "--use_nvfp4"}


@dataclass(frozen=True)
class Precision:
    """How an engine computes and stores.

    `quant_algo` and `kv_quant_algo` are TensorRT-LLM's names as config.json will record them; None: not quantized.
    `weight_only`: int8 or int4, done by the converter. `carried_flags`: what the converter needs to read a checkpoint
    that is quantized already.
    """

    dtype: str
    quant_algo: str | None
    kv_quant_algo: str | None
    route: Route
    weight_only: str | None = None
    carried_flags: tuple[str, ...] = ()


def resolved_dtype(asked: str, checkpoint: str | None) -> str:
    """The computation type: as asked; for `auto` the checkpoint's, float16 where it is float32, unnamed or no float.

    That is what the converters do (tensorrt_llm/models/convert_utils.py, `infer_dtype`; the help of their --dtype).
    """
    if asked != "auto":
        return asked
    return checkpoint if checkpoint in ("float16", "bfloat16") else "float16"


def resolve_precision(config: ModelConfig, source: ModelSource, family: Family) -> Precision:
    """The precision of an engine of `config` built as `source` says; call after `precision_problems` found nothing."""
    dtype = resolved_dtype(source.dtype, config.dtype)
    quant = config.quant
    if quant is not None:
        flags = _carried_flags(quant, source, family)
        kv = "FP8" if "--fp8_kv_cache" in flags or _gpt_cache(quant, family) else None
        return Precision(dtype, _carried_algo(quant), kv, "converter", carried_flags=flags)
    algo = FORMATS.get(source.quantization)
    kv = "FP8" if source.kv_cache_dtype == "fp8" else None
    weight_only = WEIGHT_ONLY.get(source.quantization)
    if algo is None or (weight_only in family.weight_only and kv is None):
        return Precision(dtype, algo, kv, "converter", weight_only=weight_only)
    return Precision(dtype, algo, kv, "quantizer")


def _carried_algo(quant: QuantizationFacts) -> str | None:
    """The converters read an AWQ checkpoint of AutoAWQ as groups with zero points, which they call GPTQ."""
    return "W4A16_GPTQ" if quant.method == "awq" else quant.algo


def _carried_flags(quant: QuantizationFacts, source: ModelSource, family: Family) -> tuple[str, ...]:
    if quant.method != "modelopt" or family.name != "llama":
        return ()
    cache = ("--fp8_kv_cache",) if quant.kv_cache_algo == "FP8" and source.kv_cache_dtype != "int8" else ()
    return (_MODELOPT_FLAGS[quant.algo or ""], *cache)


def _gpt_cache(quant: QuantizationFacts, family: Family) -> bool:
    return family.name == "gpt" and quant.kv_cache_algo == "FP8"  # it reads hf_quant_config.json by itself


def precision_problems(section: str, config: ModelConfig, source: ModelSource, family: Family) -> Iterator[Problem]:
    """Why the precision that the spec's `section` (target, draft) asks for cannot be had."""
    if resolved_dtype(source.dtype, config.dtype) == "float32":
        message = "float32 has no context FMHA kernels, which draft tokens need"
        yield Problem(f"{section}.dtype", message, "write bfloat16 or float16")
    if config.quant is not None:
        yield from _carried_problems(section, config.quant, source, family)
    else:
        yield from _asked_problems(section, source, family)
    yield from _cache_problems(section, config, source)


def _asked_problems(section: str, source: ModelSource, family: Family) -> Iterator[Problem]:
    quantization = source.quantization
    if family.quantizes(quantization):
        return
    done = [f"{name}_wo" for name in family.weight_only]
    hint = f"it can do {' and '.join(done)}" if done else "use a checkpoint that is built without quantization"
    message = f"{quantization} is not known to work for this family ({family.name}): quantize.py does not list it"
    yield Problem(f"{section}.quantization", message, hint)


def _cache_problems(section: str, config: ModelConfig, source: ModelSource) -> Iterator[Problem]:
    where = f"{section}.kv_cache_dtype"
    lost = "which turns paged context FMHA off: the engine could not take draft tokens"
    if source.kv_cache_dtype == "int8":
        yield Problem(where, f"int8 is a KV cache {lost}", "write auto, or fp8 with quantization: fp8")
    if source.kv_cache_dtype != "fp8":
        return
    algo = config.quant.algo if config.quant is not None else FORMATS.get(source.quantization)
    if algo not in FP8_FAMILY:
        over = f"over {algo or 'unquantized'} weights"
        yield Problem(where, f"fp8 {over} is a KV cache {lost}", "use fp8, nvfp4 or w4a8_awq weights, or write auto")
    elif config.quant is not None and config.quant.kv_cache_algo != "FP8":
        message = "the checkpoint is quantized already and carries no scales for an FP8 KV cache"
        yield Problem(where, message, "write auto, or quantize the original checkpoint with kv_cache_dtype: fp8")


def _carried_problems(section: str, quant: QuantizationFacts, source: ModelSource, family: Family) -> Iterator[Problem]:
    where = f"{section}.checkpoint"
    original = "use the checkpoint that it was quantized from, with quantization: in the spec"
    if source.quantization != "none":
        message = f"{source.quantization} on top of a checkpoint that is quantized already ({quant.method})"
        yield Problem(f"{section}.quantization", message, "leave it out to use the checkpoint as it is")
    if quant.method == "gptq" and quant.desc_act:
        yield Problem(where, "is a GPTQ checkpoint with desc_act, which the converters refuse", original)
    elif reason := family.unreadable(quant.method, quant.algo, quant.bits):
        yield Problem(where, f"is {reason}", original)
    if quant.kv_cache_algo == "INT8":
        yield Problem(where, "carries an INT8 KV cache, which turns paged context FMHA off", original)
