"""Rules about the type that models compute in, and the texts that quantization is calibrated with."""

from __future__ import annotations

from collections.abc import Iterator

from trtspec.rules.facts import Facts, each_config, each_source
from trtspec.rules.precision import computation_dtype
from trtspec.rules.registry import Hit, rule

__all__: list[str] = []


@rule(
    "dtype-float32",
    "SILENT",
    "error",
    title="An engine in float32",
    source="context FMHA has no float32 kernels; the draft-target example of TensorRT-LLM names FP16, BF16 and FP8",
    explanation="Speculation needs paged context attention, whose kernels are for half precision and FP8. float32 "
    "also doubles memory and halves speed.",
    fix="dtype: bfloat16, or float16 where the model was trained in it.",
    example="draft: {dtype: float32} with runtime: tensorrt_llm",
)
def _float32(facts: Facts) -> Iterator[Hit]:
    for role, source in each_source(facts):
        if source.dtype == "float32":
            message = "float32 has no context attention kernels, which draft tokens need"
            yield Hit(role, message, f"set {role}.dtype: bfloat16")


@rule(
    "float16-narrows-range",
    "SILENT",
    "note",
    title="A model trained in bfloat16 is computed in float16",
    source="bfloat16 reaches 3·10^38, float16 65 504; known to overflow: Gemma",
    explanation="Activations beyond 65 504 become infinite, and the answer noise. Most Llama and Qwen models stay "
    "below; Gemma's do not.",
    fix="dtype: bfloat16 (or auto).",
    example="target: {checkpoint: ./gemma-2-27b-it, dtype: float16}",
)
def _narrows(facts: Facts) -> Iterator[Hit]:
    for role, config in each_config(facts):
        if facts.source(role).dtype != "float16" or config.dtype != "bfloat16":
            continue
        gemma = (config.model_type or "").startswith("gemma")
        message = "the checkpoint is bfloat16, computed in float16: values beyond 65 504 become infinite"
        message += " (Gemma's do)" if gemma else ""
        yield Hit(role, message, f"set {role}.dtype: bfloat16", {"gemma": gemma}, level="warning" if gemma else "note")


@rule(
    "bfloat16-needs-ampere",
    "PERF",
    "warning",
    title="bfloat16 on a GPU without hardware for it",
    source="CUDA C programming guide: bfloat16 arithmetic since compute capability 8.0",
    explanation="T4 and V100 have no bfloat16 units: PyTorch computes it in float32 pieces, several times slower.",
    fix="dtype: float16 there.",
    example="runtime: torch, hardware: {gpu: T4}, a bfloat16 checkpoint",
)
def _bfloat16(facts: Facts) -> Iterator[Hit]:
    if facts.engines or facts.gpu is None or facts.gpu.sm >= 80:
        return
    for role, _ in each_config(facts):
        if computation_dtype(facts, role) == "bfloat16":
            message = f"bfloat16 is slow on {facts.gpu.name} (SM {facts.gpu.sm}): no hardware below SM 80"
            yield Hit(role, message, f"set {role}.dtype: float16", {"sm": facts.gpu.sm})


@rule(
    "torch-weights-rounded",
    "SILENT",
    "warning",
    title="The torch runtime rounds the weights",
    source="docs/torch.md: the demo's target agrees with itself in 8 bits on 92 % of the next tokens",
    explanation="torch.weights int8 and float16 are faster on a CPU and change outputs, in both arms alike: a load "
    "test still compares speculation only, but of a model that is not quite the checkpoint's.",
    fix="torch.weights: exact where outputs have to be the checkpoint's.",
    example="torch: {weights: int8}",
)
def _rounded(facts: Facts) -> Iterator[Hit]:
    weights = facts.spec.torch.weights
    if facts.spec.runtime != "torch" or weights == "exact":
        return
    message = f"weights are rounded to {weights}: outputs are not exactly the checkpoint's"
    fix = "remove torch.weights where that matters"
    yield Hit("spec", message, fix, {"weights": weights}, level="warning" if weights == "int8" else "note")


_CALIBRATED = ("fp8", "nvfp4", "int4_awq", "w4a8_awq", "int8_sq")


@rule(
    "calibration-fetched",
    "INFO",
    "note",
    title="Calibration texts are fetched from the hub",
    source="examples/quantization/quantize.py of TensorRT-LLM: cnn_dailymail by default",
    explanation="The quantizer downloads its texts. Without a network the step fails after the model was loaded.",
    fix="calibration.dataset: a folder with the data set, where there is no network.",
    example="target: {quantization: fp8} without calibration.dataset",
)
def _fetched(facts: Facts) -> Iterator[Hit]:
    roles = [role for role, source in each_source(facts) if source.quantization in _CALIBRATED]
    if roles and facts.spec.calibration.dataset is None:
        message = f"{' and '.join(roles)}: quantizing fetches calibration texts (cnn_dailymail) from the hub"
        yield Hit("spec", message, "without a network: set calibration.dataset to a folder", {"roles": roles})


@rule(
    "calibration-unused",
    "SILENT",
    "warning",
    title="A calibration section, but nothing that is calibrated",
    source="weight-only quantization and quantized checkpoints take no texts",
    explanation="The section has no effect: no model of the spec is quantized with texts.",
    fix="Remove it, or set quantization (fp8, nvfp4, int4_awq, w4a8_awq, int8_sq).",
    example="calibration: {size: 256} with quantization: none",
)
def _unused(facts: Facts) -> Iterator[Hit]:
    calibration = facts.spec.calibration
    given = facts.engines and calibration != type(calibration)()
    if given and not any(source.quantization in _CALIBRATED for _, source in each_source(facts)):
        message = "calibration is given, but neither model is quantized with texts"
        yield Hit("spec", message, f"remove it, or set target.quantization: {_CALIBRATED[0]}")


@rule(
    "calibration-too-long",
    "CRASH",
    "error",
    title="Calibration texts are longer than the model",
    source="positions beyond the model's have no embedding",
    explanation="The quantizer runs texts of calibration.max_seq_length tokens through the model.",
    fix="Lower calibration.max_seq_length.",
    example="calibration: {max_seq_length: 4096} with a model of 2048 positions",
)
def _too_long(facts: Facts) -> Iterator[Hit]:
    length = facts.spec.calibration.max_seq_length
    for role, source in each_source(facts):
        config = facts.surveys[role].config
        positions = config.usable_positions if config else None
        if source.quantization in _CALIBRATED and positions is not None and length > positions:
            message = f"calibration.max_seq_length is {length}, the {role} has {positions} positions"
            yield Hit(role, message, f"set calibration.max_seq_length: {min(512, positions)}",
                      {"length": length, "positions": positions})  # fmt: skip
