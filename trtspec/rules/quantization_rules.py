"""Rules about quantized weights: those of the checkpoint, those that are asked for, and the GPU under them."""

from __future__ import annotations

from collections.abc import Iterator

from trtspec.rules.facts import Facts, each_built, each_config, each_source, family_of
from trtspec.rules.precision import weight_algo
from trtspec.rules.registry import Hit, rule
from trtspec.toolchain.families import WEIGHT_ONLY

__all__: list[str] = []

_BUILDER = "tensorrt_llm/builder.py of TensorRT-LLM 1.2"
_MATRIX = "TensorRT-LLM's support matrix; Model-Optimizer's support matrix (FP8, W4A8: Ada and later; NVFP4: Blackwell)"
# QuantAlgo → first compute capability with the arithmetic for it
_NEEDS_SM = {
    "FP8": 89,
    "FP8_PER_CHANNEL_PER_TOKEN": 89,
    "W4A8_AWQ": 89,
    "FP8_BLOCK_SCALES": 90,
    "NVFP4": 100,
}
# QuantMode.is_int8_weight_only, is_int4_weight_only (AWQ and GPTQ too), has_act_and_weight_quant, per channel and token
_NOT_ON_BLACKWELL = {
    "W8A16": "INT8 weight-only",
    "W8A16_GPTQ": "INT8 weight-only (GPTQ)",
    "W4A16": "INT4 weight-only",
    "W4A16_AWQ": "INT4 weight-only (AWQ)",
    "W4A16_GPTQ": "INT4 weight-only (GPTQ)",
    "W4A8_AWQ": "INT4 weight-only (AWQ)",
    "W8A8_SQ_PER_CHANNEL": "SmoothQuant",
    "W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN": "SmoothQuant",
    "FP8_PER_CHANNEL_PER_TOKEN": "per-channel and per-token scaling",
}


@rule(
    "quantized-checkpoint",
    "CRASH",
    "error",
    title="The checkpoint's weights are quantized, which the torch runtime does not read",
    source="quantization_config in config.json or hf_quant_config.json",
    explanation="The torch runtime computes with plain weights; packed ones need kernels that it does not have.",
    fix="Use the unquantized checkpoint, or runtime: tensorrt_llm.",
    example='runtime: torch with {"quantization_config": {"quant_method": "awq"}}',
)
def _quantized(facts: Facts) -> Iterator[Hit]:
    for role, config in each_config(facts):
        weights = facts.surveys[role].weights
        gguf = weights is not None and weights.format == "gguf"  # dequantized when it is built
        if config.quantization is not None and not facts.engines and not gguf:
            message = f"weights are quantized ({config.quantization}); the torch runtime needs plain ones"
            yield Hit(role, message, "use the unquantized checkpoint", {"method": config.quantization})


@rule(
    "quantized-twice",
    "CRASH",
    "error",
    title="Quantization is asked for, but the checkpoint is quantized already",
    source="ModelOpt quantizes plain weights; NVIDIA/TensorRT-LLM#1113, #2559",
    explanation="The quantizer loads the model in full precision and calibrates it. Packed weights either stop it "
    "or are quantized a second time.",
    fix="Leave quantization: none and use the checkpoint as it is, or give the unquantized checkpoint.",
    example="target: {checkpoint: ./Llama-3.1-70B-Instruct-AWQ-INT4, quantization: fp8}",
)
def _twice(facts: Facts) -> Iterator[Hit]:
    for role, source, config in each_built(facts):
        if source.quantization == "none" or config.quant is None:
            continue
        has = config.quant.algo or config.quant.method
        message = f"{role}.quantization is {source.quantization}, but the weights are quantized already ({has}, "
        message += f"{config.quant.source})"
        fix = f"set {role}.quantization: none, or give the unquantized checkpoint"
        yield Hit(role, message, fix, {"asked": source.quantization, "has": has})


@rule(
    "checkpoint-quantization-unsupported",
    "CRASH",
    "error",
    title="No converter reads this kind of quantized checkpoint",
    source="examples/models/core/*/convert_checkpoint.py of TensorRT-LLM; NVIDIA/TensorRT-LLM#9298, #2080, #1677",
    explanation="Packed weights and their scales have a layout of their own. The converters for engines know AWQ, "
    "GPTQ, FBGEMM FP8 and ModelOpt exports, and not for every family; compressed-tensors, bitsandbytes and "
    "block-scaled FP8 are read by the PyTorch backend only.",
    fix="Give the unquantized checkpoint and set quantization, e.g. fp8: trtspec build quantizes it.",
    example='{"quantization_config": {"quant_method": "compressed-tensors", …}}',
)
def _unsupported(facts: Facts) -> Iterator[Hit]:
    for role, source, config in each_built(facts):
        family, quant = family_of(config), config.quant
        if family is None or quant is None or source.quantization != "none":
            continue
        why = family.unreadable(quant.method, quant.algo, quant.bits)
        if why is not None:
            fix = f"give the unquantized checkpoint and set {role}.quantization, e.g. fp8"
            yield Hit(role, f"the weights are {why}", fix, {"method": quant.method, "algo": quant.algo})


@rule(
    "quantization-not-for-family",
    "CRASH",
    "error",
    title="This family cannot be quantized so",
    source="examples/quantization/quantize.py and examples/models/*/*/convert_checkpoint.py of TensorRT-LLM 1.x",
    explanation="The quantizer knows model families by name, and not every converter has weight-only flags.",
    fix="quantization: none, or one that the family has.",
    example="target: {checkpoint: ./DeepSeek-V2, quantization: fp8}",
)
def _not_for_family(facts: Facts) -> Iterator[Hit]:
    for role, source, config in each_built(facts):
        family = family_of(config)
        if family is None or family.quantizes(source.quantization):
            continue
        lacks = "its converter has no weight-only flags and " if source.quantization in WEIGHT_ONLY else ""
        message = f"{config.architecture} cannot be built with {source.quantization}: {lacks}quantize.py does not know "
        message += f"the family ({family.name})"
        yield Hit(role, message, f"set {role}.quantization: none", {"quantization": source.quantization})


@rule(
    "gptq-act-order",
    "CRASH",
    "error",
    title="GPTQ weights with desc_act cannot be converted",
    source="the converters refuse desc_act: rows are stored in the order of their importance",
    explanation="With activation order the rows of a matrix are permuted; TensorRT-LLM's kernels have no place for "
    "the permutation.",
    fix="Take a GPTQ checkpoint made with desc_act: false, an AWQ one, or the unquantized one.",
    example='{"quantization_config": {"quant_method": "gptq", "bits": 4, "desc_act": true}}',
)
def _act_order(facts: Facts) -> Iterator[Hit]:
    for role, _, config in each_built(facts):
        if config.quant is not None and config.quant.desc_act:
            fix = "take a checkpoint made with desc_act: false, an AWQ one, or the unquantized one"
            yield Hit(role, f"GPTQ weights with desc_act: true ({config.quant.source}) are refused", fix)


@rule(
    "quantization-contradicted",
    "SILENT",
    "error",
    title="The weights are not quantized as the configuration says",
    source="NVIDIA/TensorRT-LLM#2080, #9298; safetensors headers: names, types and shapes of packed weights and scales",
    explanation="A packed weight means nothing without its scale, its group size and its layout, and an FP8 number is "
    "a share of its scale. A loader that goes by the wrong ones reads nonsense, or misses a tensor after a long load.",
    fix="Fetch configuration and weights again, of one save; or quantize the unquantized checkpoint.",
    example='{"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 64}} over groups of 128',
)
def _contradicted(facts: Facts) -> Iterator[Hit]:
    for role in facts.roles:
        found = facts.surveys[role].quantization
        for sentence in found.contradictions if found is not None else ():
            fix = "fetch configuration and weights again, of one save"
            yield Hit(role, sentence, fix, {"kinds": dict(found.kinds) if found else {}})


@rule(
    "quantization-needs-newer-gpu",
    "CRASH",
    "error",
    title="The GPU has no arithmetic for this quantization",
    source=_MATRIX,
    explanation="FP8 needs compute capability 8.9 (Ada) or newer, NVFP4 10.0 (Blackwell). The build fails, or the "
    "kernels are missing when the engine runs.",
    fix="int4_awq or int8_sq on Ampere, fp8 on Ada and Hopper.",
    example="target: {quantization: fp8} with hardware: {gpu: A100-80GB-SXM}",
)
def _newer_gpu(facts: Facts) -> Iterator[Hit]:
    for role, source in each_source(facts):
        algo = weight_algo(facts, role)
        needed = _NEEDS_SM.get(algo or "")
        if facts.gpu is None or needed is None or facts.gpu.sm >= needed:
            continue
        asked = source.quantization if source.quantization != "none" else f"the checkpoint's {algo}"
        message = f"{asked} needs SM {needed} or newer, {facts.gpu.name} is SM {facts.gpu.sm}"
        instead = "fp8" if facts.gpu.sm >= 89 else "int4_awq or int8_sq"
        yield Hit(role, message, f"set {role}.quantization: {instead}", {"sm": facts.gpu.sm, "needs": needed})


@rule(
    "quantization-refused-on-blackwell",
    "CRASH",
    "error",
    title="Integer quantization is refused on data-centre Blackwell",
    source=f"{_BUILDER}: SM 100 to 119 raise for INT8/INT4 weight-only, SmoothQuant, per-channel and per-token scaling",
    explanation="TensorRT-LLM's engine builder has no integer kernels for B200, GB200 and B300, and stops.",
    fix="fp8 or nvfp4 on these GPUs.",
    example="target: {quantization: int4_awq} with hardware: {gpu: B200}",
)
def _blackwell(facts: Facts) -> Iterator[Hit]:
    if facts.gpu is None or not 100 <= facts.gpu.sm < 120:
        return
    for role, _ in each_source(facts):
        kind = _NOT_ON_BLACKWELL.get(weight_algo(facts, role) or "")
        if kind is not None:
            message = f"{kind} is refused on SM 100 to 119, {facts.gpu.name} is SM {facts.gpu.sm}"
            yield Hit(role, message, f"set {role}.quantization: fp8 or nvfp4", {"sm": facts.gpu.sm})
