"""Rules about the precision of the KV cache: some choices silently switch off what speculation needs."""

from __future__ import annotations

from collections.abc import Iterator

from trtspec.rules.facts import Facts, each_source
from trtspec.rules.precision import kv_algo, weight_algo
from trtspec.rules.registry import Hit, rule
from trtspec.toolchain.flags import FP8_FAMILY

__all__: list[str] = []

_BUILDER = "tensorrt_llm/builder.py of TensorRT-LLM 1.2"
_WHY = (
    "Draft and target continue a sequence from reused KV blocks, round after round; reuse needs paged context "
    "attention. The builder only writes a warning into its log."
)


@rule(
    "kv-cache-int8",
    "SILENT",
    "error",
    title="An INT8 KV cache switches off paged context attention",
    source=f"{_BUILDER}: paged context FMHA is disabled with an INT8 KV cache, and SM 100 to 119 refuse it",
    explanation=_WHY,
    fix="kv_cache_dtype: auto, or fp8 with fp8 weights.",
    example="target: {kv_cache_dtype: int8}",
)
def _int8(facts: Facts) -> Iterator[Hit]:
    for role, _ in each_source(facts):
        if kv_algo(facts, role) == "INT8":
            message = "an INT8 KV cache silently switches off paged context attention, so KV blocks cannot be reused"
            if facts.gpu is not None and 100 <= facts.gpu.sm < 120:
                message += f"; on {facts.gpu.name} (SM {facts.gpu.sm}) the build stops"
            yield Hit(role, message, f"set {role}.kv_cache_dtype: auto, or fp8 with fp8 weights")


@rule(
    "kv-cache-fp8-weights",
    "SILENT",
    "error",
    title="An FP8 KV cache over weights that are not FP8",
    source=f"{_BUILDER}: paged context FMHA stays on only with quant_algo FP8, W4A8_AWQ or NVFP4; "
    "NVIDIA/TensorRT-LLM#1113",
    explanation=_WHY,
    fix="quantization: fp8 (or w4a8_awq, nvfp4) with kv_cache_dtype: fp8, else kv_cache_dtype: auto.",
    example="target: {quantization: int8_wo, kv_cache_dtype: fp8}",
)
def _fp8_weights(facts: Facts) -> Iterator[Hit]:
    for role, _ in each_source(facts):
        algo = weight_algo(facts, role)
        if kv_algo(facts, role) == "FP8" and algo not in FP8_FAMILY:
            weights = f"{algo} weights" if algo else "unquantized weights"
            message = f"an FP8 KV cache over {weights} silently switches off paged context attention, so KV blocks "
            message += f"cannot be reused (it stays on with {', '.join(FP8_FAMILY)})"
            fix = f"set {role}.kv_cache_dtype: auto, or {role}.quantization: fp8"
            yield Hit(role, message, fix, {"weights": algo})


@rule(
    "kv-cache-fp8-gpu",
    "SILENT",
    "error",
    title="An FP8 KV cache on a GPU older than Ada",
    source=f"{_BUILDER}: below SM 89 FP8 context FMHA, and with an FP8 KV cache paged context FMHA, are disabled",
    explanation=_WHY,
    fix="kv_cache_dtype: auto on Ampere.",
    example="target: {kv_cache_dtype: fp8} with hardware: {gpu: A100-80GB-SXM}",
)
def _fp8_gpu(facts: Facts) -> Iterator[Hit]:
    for role, _ in each_source(facts):
        if facts.gpu is not None and facts.gpu.sm < 89 and kv_algo(facts, role) == "FP8":
            message = f"an FP8 KV cache needs SM 89 or newer, {facts.gpu.name} is SM {facts.gpu.sm}: paged context "
            message += "attention is silently switched off, so KV blocks cannot be reused"
            yield Hit(role, message, f"set {role}.kv_cache_dtype: auto", {"sm": facts.gpu.sm})


@rule(
    "kv-cache-scales-missing",
    "SILENT",
    "error",
    title="An FP8 KV cache over a quantized checkpoint that has no scales for it",
    source="examples/models/core/llama/convert_checkpoint.py of TensorRT-LLM: KV scales come with the checkpoint",
    explanation="Scales of an FP8 KV cache are calibrated when a model is quantized. A checkpoint that was quantized "
    "without them cannot be given one afterwards.",
    fix="kv_cache_dtype: auto, or quantize the original checkpoint with kv_cache_dtype: fp8.",
    example="draft: {checkpoint: ./Llama-3.1-8B-Instruct-FP8, kv_cache_dtype: fp8} without kv_cache_quant_algo",
)
def _scales(facts: Facts) -> Iterator[Hit]:
    for role, source in each_source(facts):
        config = facts.surveys[role].config
        quant = config.quant if config is not None else None
        if (
            source.kv_cache_dtype == "fp8"
            and quant is not None
            and quant.algo in FP8_FAMILY
            and not quant.kv_cache_algo
        ):
            message = f"the checkpoint is quantized ({quant.algo}) and carries no scales for an FP8 KV cache"
            yield Hit(role, message, f"set {role}.kv_cache_dtype: auto, or quantize the original checkpoint")


@rule(
    "kv-cache-dtypes-differ",
    "PERF",
    "warning",
    title="Target and draft keep their KV caches in different precision",
    source="ggml-org/llama.cpp#25725 (acceptance fell from 99 % to 1 %), vllm-project/vllm#24505 (dtype crash)",
    explanation="A draft whose cache is coarser than the target's predicts other tokens; in some engines that path "
    "is broken altogether.",
    fix="The same kv_cache_dtype on both, and measure acceptance when it must differ.",
    example="target: {kv_cache_dtype: auto}, draft: {quantization: fp8, kv_cache_dtype: fp8}",
)
def _differ(facts: Facts) -> Iterator[Hit]:
    if not (facts.engines and facts.is_built("target") and facts.is_built("draft")):
        return
    target, draft = kv_algo(facts, "target"), kv_algo(facts, "draft")
    if target == draft:
        return
    message = f"the target's KV cache is {target or 'not quantized'}, the draft's {draft or 'not'}"
    message = message if draft else f"{message} quantized"
    fix = "set draft.kv_cache_dtype: auto, or measure acceptance with both"
    # a finer cache in the draft is the careful choice: it costs a little memory
    yield Hit(
        "pair", message, fix if draft else None, {"target": target, "draft": draft}, "warning" if draft else "note"
    )
