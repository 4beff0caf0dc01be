"""Inputs for the rules about engines: precision, parallelism, versions, GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
from safetensors.numpy import load_file, save, save_file

from tests.rules.toys import Case, both, configured, draft, edit_spec, engine, section
from trtspec.spec import SpecFile

__all__ = ["ENGINE_CASES"]


_UP, _DOWN = (f"model.layers.0.mlp.{name}_proj.weight" for name in ("up", "down"))


def fp8_without_scales(spec: SpecFile) -> None:
    """Two of the draft's matrices as FP8 numbers, a scale beside one of them: headers as safetensors writes them."""
    path = draft(spec) / "model.safetensors"
    tensors = load_file(path)
    numbers = {name: np.zeros(tensors[name].shape, np.uint8) for name in (_UP, _DOWN)}
    raw = save({**tensors, **numbers, f"{_DOWN}_scale": np.ones(1, np.float32)})
    path.write_bytes(_retyped(raw))


def packed_as_gptq(spec: SpecFile) -> None:
    """The draft's first matrix of 64 × 128 as GPTQ packs it to 4 bits in groups of 32."""
    path = draft(spec) / "model.safetensors"
    stem = _UP.removesuffix(".weight")
    parts = {"qweight": (8, 128), "qzeros": (2, 16)}
    packed: dict[str, Any] = {f"{stem}.{name}": np.zeros(shape, np.int32) for name, shape in parts.items()}
    save_file({**load_file(path), **packed, f"{stem}.scales": np.ones((2, 128), np.float16)}, path)


def _retyped(raw: bytes) -> bytes:
    length = int.from_bytes(raw[:8], "little")
    header = raw[8 : 8 + length].replace(b'"U8"', b'"F8_E4M3"').rstrip(b" ")
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + raw[8 + length :]


def quantized(method: str, **more: object) -> dict[str, Any]:
    return {"quantization_config": {"quant_method": method, **more}}


def only_an_engine(spec: SpecFile) -> None:
    (spec.root / "given").mkdir()
    engine()(spec)
    edit_spec(spec, "draft", checkpoint=None, engine="given")


B200 = {"gpu": "B200", "count": 8}
A100 = {"gpu": "A100", "count": 8}

ENGINE_CASES: list[tuple[str, Case]] = [
    ("quantized-checkpoint", Case(configured(**quantized("awq")), "error", "draft", "awq")),
    (
        "quantized-twice",
        Case(both(engine(draft={"quantization": "fp8"}), configured(**quantized("awq", bits=4))), "error", "draft",
             "draft.quantization is fp8, but the weights are quantized already (W4A16_AWQ"),
    ),
    (
        "checkpoint-quantization-unsupported",
        Case(both(engine(), configured(**quantized("bitsandbytes"))), "error", "draft", "bitsandbytes"),
    ),
    (
        "checkpoint-quantization-unsupported",
        Case(both(engine(), configured(architectures=["Qwen2ForCausalLM"], **quantized("fbgemm_fp8"))), "error",
             "draft", "the converter for qwen reads awq, gptq"),
    ),
    (
        "gptq-act-order",
        Case(both(engine(), configured(**quantized("gptq", bits=4, group_size=32, desc_act=True))), "error", "draft",
             "desc_act"),
    ),
    (
        "quantization-not-for-family",
        Case(
            both(engine(draft={"quantization": "fp8"}), configured(architectures=["DbrxForCausalLM"])),
            "error",
            "draft",
            "DbrxForCausalLM cannot be built with fp8: quantize.py does not know the family (dbrx)",
        ),
    ),
    (
        "quantization-not-for-family",
        Case(
            both(engine(draft={"quantization": "int8_wo"}), configured(architectures=["DeepseekV2ForCausalLM"])),
            "error",
            "draft",
            "no weight-only flags",
        ),
    ),
    (
        "quantization-contradicted",
        Case(fp8_without_scales, "error", "draft", f"1 FP8 weights have no scale beside them, e.g. {_UP}"),
    ),
    (
        "quantization-contradicted",
        Case(both(engine(), configured(**quantized("awq", bits=4))), "error", "draft",
             "config.json says awq (W4A16_AWQ), the headers show plain weights"),
    ),
    (
        "quantization-contradicted",
        Case(both(engine(), packed_as_gptq, configured(**quantized("gptq", bits=4, group_size=128))), "error", "draft",
             "with groups of 128, the shapes are those of groups of 32"),
    ),
    (
        "quantization-needs-newer-gpu",
        Case(engine(target={"quantization": "fp8"}, hardware=A100), "error", "target", "SM 89 or newer"),
    ),
    (
        "quantization-needs-newer-gpu",
        Case(engine(target={"quantization": "nvfp4"}), "error", "target", "SM 100 or newer, H100-80GB-SXM is SM 90"),
    ),
    (
        "quantization-refused-on-blackwell",
        Case(engine(target={"quantization": "int8_wo"}, hardware=B200), "error", "target", "INT8 weight-only"),
    ),
    (
        "quantization-refused-on-blackwell",
        Case(engine(target={"quantization": "int8_sq"}, hardware=B200), "error", "target", "SmoothQuant"),
    ),
    ("dtype-float32", Case(engine(draft={"dtype": "float32"}), "error", "draft", "float32")),
    (
        "float16-narrows-range",
        Case(both(section("draft", dtype="float16"), configured(torch_dtype="bfloat16")), "note", "draft", "65 504"),
    ),
    (
        "float16-narrows-range",
        Case(both(section("draft", dtype="float16"), configured(torch_dtype="bfloat16", model_type="gemma2")),
             "warning", "draft", "Gemma"),
    ),
    (
        "bfloat16-needs-ampere",
        Case(both(section("hardware", gpu="T4"), configured(torch_dtype="bfloat16")), "warning", "draft", "SM 75"),
    ),
    ("torch-weights-rounded", Case(section("torch", weights="int8"), "warning", "spec", "int8")),
    ("torch-weights-rounded", Case(section("torch", weights="float16"), "note", "spec", "float16")),
    ("calibration-fetched", Case(engine(target={"quantization": "fp8"}), "note", "spec", "target: quantizing")),
    ("calibration-unused", Case(engine(calibration={"size": 64}), "warning", "spec", "neither model")),
    (
        "calibration-too-long",
        Case(engine(target={"quantization": "fp8"}, calibration={"max_seq_length": 1024}), "error", "target", "1024"),
    ),
    ("kv-cache-int8", Case(engine(draft={"kv_cache_dtype": "int8"}), "error", "draft", "INT8 KV cache")),
    (
        "kv-cache-int8",
        Case(engine(draft={"kv_cache_dtype": "int8"}, hardware=B200), "error", "draft", "the build stops"),
    ),
    (
        "kv-cache-fp8-weights",
        Case(engine(draft={"kv_cache_dtype": "fp8", "quantization": "int8_wo"}), "error", "draft", "over W8A16"),
    ),
    (
        "kv-cache-fp8-weights",
        Case(engine(target={"kv_cache_dtype": "fp8"}), "error", "target", "over unquantized weights"),
    ),
    (
        "kv-cache-fp8-gpu",
        Case(engine(target={"kv_cache_dtype": "fp8", "quantization": "fp8"}, hardware=A100), "error", "target"),
    ),
    (
        "kv-cache-scales-missing",
        Case(
            both(engine(draft={"kv_cache_dtype": "fp8"}), configured(**quantized("modelopt", quant_algo="FP8"))),
            "error", "draft", "carries no scales",
        ),
    ),
    (
        "checkpoint-quantization-unsupported",
        Case(both(engine(), configured(**quantized("gptq", bits=8))), "error", "draft", "to W8A16_GPTQ"),
    ),
    (
        "kv-cache-dtypes-differ",
        Case(engine(draft={"kv_cache_dtype": "fp8", "quantization": "fp8"}), "warning", "pair", "the draft's FP8"),
    ),
    (
        "kv-cache-dtypes-differ",
        Case(engine(target={"kv_cache_dtype": "fp8", "quantization": "fp8"}), "note", "pair", "draft's not quantized"),
    ),
    ("version-unsupported", Case(engine(tensorrt_llm={"version": "1.3.0rc29"}), "error", "spec", "1.3.0rc29")),
    ("version-unsupported", Case(engine(tensorrt_llm={"version": "0.20.0"}), "error", "spec", "older")),
    (
        "version-image-mismatch",
        Case(engine(tensorrt_llm={"version": "1.1.0", "image": "26.03"}), "error", "spec", "carries"),
    ),
    ("version-image-mismatch", Case(engine(tensorrt_llm={"image": "26.04-py3"}), "error", "spec", "no TensorRT-LLM")),
    ("gpu-too-old", Case(engine(hardware={"gpu": "T4", "count": 1}), "error", "spec", "T4 is SM 75")),
    (
        "gpu-not-in-version",
        Case(engine(hardware={"gpu": "B300"}, tensorrt_llm={"version": "1.0.0"}), "error", "spec", "SM 103"),
    ),
    ("gpu-unknown", Case(engine(hardware={"gpu": "H1000", "count": 1}), "warning", "spec", "H100")),
    ("gpu-not-given", Case(engine(hardware=None), "note", "spec", "no hardware section")),
    ("path-missing", Case(section("loadtest", prompts="gone.jsonl"), "warning", "spec", "gone.jsonl does not exist")),
    ("path-missing", Case(engine(target={"engine": "gone"}), "error", "spec", "target.engine")),
    ("path-missing", Case(engine(calibration={"dataset": "./gone"}), "error", "spec", "calibration.dataset")),
    ("path-missing", Case(engine(tensorrt_llm={"examples": "gone"}), "error", "spec", "tensorrt_llm.examples")),
    ("engine-without-checkpoint", Case(only_an_engine, "note", "draft", "without its checkpoint")),
    ("tp-attention-heads", Case(engine(draft={"tp": 8}), "error", "draft", "4 attention heads")),
    (
        "tp-kv-heads",
        Case(both(engine(draft={"tp": 4}), configured(num_attention_heads=12, num_key_value_heads=3)), "error", "draft",
             "3 KV heads can neither"),
    ),
    ("tp-mlp-width", Case(both(engine(draft={"tp": 4}), configured(intermediate_size=126)), "error", "draft", "126")),
    (
        "tp-vocabulary",
        Case(both(engine(draft={"tp": 2}), configured(architectures=["OPTForCausalLM"], vocab_size=321)), "error",
             "draft", "321 rows of the vocabulary"),
    ),
    (
        "tp-quantization-groups",
        Case(both(engine(draft={"tp": 2, "quantization": "int4_awq"}),
                  configured(hidden_size=896, num_attention_heads=14, num_key_value_heads=2, intermediate_size=4864)),
             "error", "draft", "no whole number of quantization groups of 128"),
    ),
    ("kv-heads-copied", Case(engine(draft={"tp": 4}), "note", "draft", "2 KV heads on 4 ranks")),
    ("pp-layers", Case(engine(draft={"pp": 2}), "error", "draft", "1 layers")),
    (
        "pp-unsupported",
        Case(both(engine(target={"pp": 2}), configured("target", architectures=["Gemma2ForCausalLM"])), "error",
             "target", "has no pipeline ranks"),
    ),
    ("pp-unproven", Case(engine(target={"pp": 2}), "warning", "target", "pp 2")),
    (
        "ranks-exceed-gpus",
        Case(engine(target={"tp": 4}, hardware={"gpu": "H100", "count": 2}), "error", "target", "= 4 ranks"),
    ),
    ("gpus-outside-machine", Case(engine(draft={"gpus": [8]}), "error", "draft", "the machine has 0 to 7")),
    ("draft-tp", Case(engine(draft={"tp": 2}, target={"tp": 2}), "warning", "draft", "draft.tp is 2")),
    ("draft-tp-larger", Case(engine(draft={"tp": 2}), "warning", "draft", "larger than target.tp 1")),
    (
        "tp-over-pcie",
        Case(engine(target={"tp": 2}, hardware={"gpu": "L40S", "count": 2}), "note", "target", "over 64 GB/s"),
    ),
]  # fmt: skip
