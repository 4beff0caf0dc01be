"""Quantised checkpoints as their tools write them, and what their headers show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders import tiny_checkpoint
from trtspec.checkpoints.checkpoint import survey_checkpoint
from trtspec.checkpoints.config import parse_config, read_config
from trtspec.checkpoints.evidence import QuantizationEvidence, quantization_evidence
from trtspec.checkpoints.quantization import HF_QUANT, QuantizationFacts, read_modelopt
from trtspec.checkpoints.tensors import Tensor
from trtspec.checkpoints.weights import Weights


def quant(**section: Any) -> QuantizationFacts:
    facts = parse_config({"quantization_config": section}, "config.json").quant
    assert facts is not None
    return facts


def group(weights: dict[str, Any], inputs: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"targets": ["Linear"], "weights": weights, "input_activations": inputs}


def compressed(weights: dict[str, Any], inputs: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group(weights, inputs)}, **more}


FP8 = {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True, "dynamic": False}
INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}
PER_TOKEN = {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True}

SECTIONS: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("awq", {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm",
             "modules_to_not_convert": None},
     {"algo": "W4A16_AWQ", "bits": 4, "group_size": 128, "symmetric": False}),
    ("gptq", {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "sym": True},
     {"algo": "W4A16_GPTQ", "desc_act": True, "symmetric": True}),
    ("gptq 8", {"quant_method": "gptq", "bits": 8, "group_size": -1, "desc_act": False},
     {"algo": "W8A16_GPTQ", "group_size": -1, "desc_act": False}),
    ("gptq 3", {"quant_method": "gptq", "bits": 3, "group_size": 128}, {"algo": None, "bits": 3}),
    ("fbgemm", {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0,
                "modules_to_not_convert": ["model.layers.0.mlp.down_proj"]},
     {"algo": "FP8_PER_CHANNEL_PER_TOKEN", "dynamic": True, "excluded": ("model.layers.0.mlp.down_proj",)}),
    ("deepseek", {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]},
     {"algo": "FP8_BLOCK_SCALES", "block": (128, 128), "dynamic": True}),
    ("fp8", {"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["lm_head"]},
     {"algo": "FP8", "dynamic": False, "excluded": ("lm_head",)}),
    ("ct fp8 static", compressed(FP8, {**FP8}, kv_cache_scheme={"num_bits": 8, "type": "float"}, ignore=["lm_head"]),
     {"algo": "FP8", "kv_cache_algo": "FP8", "dynamic": False, "excluded": ("lm_head",)}),
    ("ct fp8 dynamic", compressed({**FP8, "strategy": "channel"}, PER_TOKEN),
     {"algo": "FP8_PER_CHANNEL_PER_TOKEN", "dynamic": True}),
    ("ct fp8 block", compressed({**FP8, "strategy": "block", "block_structure": [128, 128]}, PER_TOKEN),
     {"algo": "FP8_BLOCK_SCALES", "block": (128, 128)}),
    ("ct fp8 weights only", compressed(FP8), {"algo": None, "bits": 8}),
    ("ct int8", compressed({**FP8, "type": "int", "strategy": "channel"}, {**PER_TOKEN, "type": "int"}),
     {"algo": "W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN", "bits": 8}),
    ("ct int4", compressed({**INT4, "actorder": "weight"}),
     {"algo": "W4A16_GPTQ", "group_size": 128, "desc_act": True}),
    ("ct nvfp4", compressed({"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16},
                            {"num_bits": 4, "type": "float", "dynamic": "local"}), {"algo": "NVFP4", "bits": 4}),
    ("ct mixed", {"quant_method": "compressed-tensors",
                  "config_groups": {"a": group(FP8, dict(FP8)), "b": group(INT4)}},
     {"algo": "MIXED_PRECISION", "mixed": {"FP8": 1, "W4A16_GPTQ": 1}}),
    ("modelopt in config.json", {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"],
                                 "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"}},
     {"algo": "NVFP4", "kv_cache_algo": "FP8", "group_size": 16, "excluded": ("lm_head",)}),
    ("bitsandbytes 4", {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
     {"algo": None, "bits": 4}),
    ("bitsandbytes 8", {"quant_method": "bitsandbytes", "load_in_8bit": True}, {"bits": 8}),
    ("mxfp4", {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}, {"algo": "W4A16_MXFP4", "bits": 4}),
    ("hqq", {"quant_method": "hqq", "nbits": 4, "group_size": 64}, {"algo": None, "bits": 4, "group_size": 64}),
    ("exl2", {"quant_method": "exl2", "bits": 5.0}, {"algo": None, "bits": None}),
)  # fmt: skip


@pytest.mark.parametrize(("section", "facts"), [case[1:] for case in SECTIONS], ids=[case[0] for case in SECTIONS])
def test_what_a_section_says(section: dict[str, Any], facts: dict[str, Any]) -> None:
    found = quant(**section)
    assert found.method == section["quant_method"]
    assert found.source == "config.json"
    assert {key: getattr(found, key) for key in facts} == facts


@pytest.mark.parametrize("method", ["quanto", "eetq", "aqlm", "torchao", "auto-round", "something_new"])
def test_other_methods_are_named(method: str) -> None:
    found = quant(quant_method=method)
    assert (found.method, found.algo) == (method, None)
    assert parse_config({"quantization_config": {"quant_method": method}}, "c").quantization == method


@pytest.mark.parametrize("section", [{"quant_method": 3}, {"quant_method": "gptq", "bits": "4"},
                                     {"quant_method": "compressed-tensors", "config_groups": ["x"]},
                                     {"quant_method": "fp8", "weight_block_size": [0, "a"]},
                                     {"quant_method": "compressed-tensors", "config_groups": {"a": None}}])  # fmt: skip
def test_odd_sections_give_what_can_be_said(section: dict[str, Any]) -> None:
    assert quant(**section).bits in (None, 8)


def test_modelopt_s_own_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"]}))
    (tmp_path / HF_QUANT).write_text(
        json.dumps({
            "producer": {"name": "modelopt", "version": "0.29.0"},
            "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]},
        })
    )  # fmt: skip
    config = read_config(tmp_path)
    assert config.quantization == "modelopt"
    assert config.quant == QuantizationFacts(
        "modelopt", algo="FP8", bits=8, kv_cache_algo="FP8", excluded=("lm_head",), source=HF_QUANT
    )


def test_modelopt_mixed_and_unquantised() -> None:
    layers = {"a": {"quant_algo": "FP8"}, "b": {"quant_algo": "NVFP4", "group_size": 16}, "c": {"quant_algo": "FP8"}}
    document = {"quantization": {"quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": None,
                                 "quantized_layers": layers}}  # fmt: skip
    found = read_modelopt(document)
    assert found is not None
    assert (found.algo, found.mixed, found.kv_cache_algo) == ("MIXED_PRECISION", {"FP8": 2, "NVFP4": 1}, None)
    assert read_modelopt({"quantization": {"quant_algo": None}}) is None
    assert read_modelopt({}) is None


def shown(facts: QuantizationFacts | None, *tensors: tuple[str, str, tuple[int, ...]]) -> QuantizationEvidence:
    listed = tuple(Tensor(name, shape, dtype, 0, "model.safetensors") for name, dtype, shape in tensors)
    return quantization_evidence(facts, Weights("safetensors", ("model.safetensors",), listed))


LAYER = "model.layers.0.mlp.up_proj"
PLAIN = (f"{LAYER}.weight", "BF16", (256, 128))
FP8_WEIGHT = (f"{LAYER}.weight", "F8_E4M3", (256, 128))
# in 128, out 256, groups of 64
AWQ = [
    (f"{LAYER}.qweight", "I32", (128, 32)),
    (f"{LAYER}.qzeros", "I32", (2, 32)),
    (f"{LAYER}.scales", "F16", (2, 256)),
]
GPTQ = [(f"{LAYER}.qweight", "I32", (16, 256)), (f"{LAYER}.qzeros", "I32", (2, 32)),
        (f"{LAYER}.scales", "F16", (2, 256)), (f"{LAYER}.g_idx", "I32", (128,))]  # fmt: skip


def test_fp8_weights_without_a_scale() -> None:
    """NVIDIA/TensorRT-LLM#2559: missing scales show after hours of building."""
    said = QuantizationFacts("fp8", algo="FP8", bits=8)
    found = shown(said, FP8_WEIGHT)
    assert found.without_scale == (f"{LAYER}.weight",)
    assert not found.consistent
    assert "no scale" in found.contradictions[0]
    for name in ("weight_scale", "weight_scale_inv"):
        assert shown(said, FP8_WEIGHT, (f"{LAYER}.{name}", "F32", (1,))).consistent


@pytest.mark.parametrize(("tensors", "layout"), [(AWQ, "awq"), (GPTQ, "gptq")])
def test_packed_shapes_tell_layout_bits_and_groups(
    tensors: list[tuple[str, str, tuple[int, ...]]], layout: str
) -> None:
    right = QuantizationFacts(layout, algo=f"W4A16_{layout.upper()}", bits=4, group_size=64)
    found = shown(right, *tensors)
    assert (found.layout, found.bits, found.group_size, found.kinds) == (layout, 4, 64, {"packed": 1})
    assert found.consistent
    other = QuantizationFacts("gptq" if layout == "awq" else "awq", bits=8, group_size=128)
    texts = " ".join(shown(other, *tensors).contradictions)
    assert f"packed as {layout} packs them" in texts
    assert "with 8 bits, the shapes are those of 4 bits" in texts
    assert "groups of 128, the shapes are those of groups of 64" in texts


def test_a_configuration_and_headers_that_do_not_match() -> None:
    said = QuantizationFacts("awq", algo="W4A16_AWQ", bits=4, group_size=128)
    assert "the headers show plain weights" in shown(said, PLAIN).contradictions[0]
    assert "says nothing of quantization" in shown(None, *AWQ).contradictions[0]
    assert shown(None, PLAIN).consistent
    nvfp4 = QuantizationFacts("modelopt", algo="NVFP4", bits=4)
    stored = ((f"{LAYER}.weight", "U8", (256, 64)), (f"{LAYER}.weight_scale", "F8_E4M3", (256, 8)),
              (f"{LAYER}.weight_scale_2", "F32", ()))  # fmt: skip
    assert shown(nvfp4, *stored).kinds == {"nvfp4": 1}
    assert shown(nvfp4, *stored).consistent


def test_other_forms_and_scales_of_activations_and_cache() -> None:
    mxfp4 = shown(None, ("a.gate_up_proj_blocks", "U8", (4, 8, 2, 16)), ("a.gate_up_proj_scales", "U8", (4, 8, 2)))
    assert mxfp4.kinds == {"mxfp4": 1}
    bnb = shown(None, ("a.weight", "U8", (512, 1)), ("a.weight.absmax", "U8", (16,)), ("b.weight", "I8", (4, 4)),
                ("b.SCB", "F32", (4,)), ("c.weight", "I8", (4, 4)))  # fmt: skip
    assert bnb.kinds == {"bitsandbytes": 2, "int8": 1}
    static = QuantizationFacts("fp8", algo="FP8", dynamic=False)
    scale = (f"{LAYER}.weight_scale", "F32", ())
    assert "static activation scales" in shown(static, FP8_WEIGHT, scale).contradictions[0]
    full = shown(static, FP8_WEIGHT, scale, (f"{LAYER}.input_scale", "F32", ()), ("x.k_proj.k_scale", "F32", ()))
    assert full.consistent
    assert (full.activation_scales, full.kv_scales) == (True, True)


def test_a_survey_holds_both_against_each_other(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path)
    plain = survey_checkpoint(folder).quantization
    assert plain is not None
    assert plain.consistent
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    (folder / "config.json").write_text(json.dumps(config))
    found = survey_checkpoint(folder).quantization
    assert found is not None
    assert not found.consistent
