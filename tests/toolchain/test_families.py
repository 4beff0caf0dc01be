"""What a family's converter takes over, and what it can be asked for."""

from __future__ import annotations

import pytest

from trtspec.toolchain.families import FAMILIES, NOT_CONVERTIBLE, converter_family


@pytest.mark.parametrize(
    ("family", "method", "algo", "reason"),
    [
        ("llama", "awq", "W4A16_AWQ", None),
        ("llama", "AWQ", "W4A16_AWQ", None),
        ("llama", "gptq", "W8A16_GPTQ", "quantized by gptq to W8A16_GPTQ; the converter for llama reads W4A16_GPTQ"),
        ("qwen", "gptq", "W8A16_GPTQ", None),
        ("gpt", "modelopt", "NVFP4", "the converter for gpt reads FP8"),
        ("gpt", "awq", None, "quantized by awq (4 bits); the converter for gpt reads modelopt"),
        ("gemma", "awq", "W4A16_AWQ", "the converter for gemma reads plain weights only"),
        ("internlm2", "awq", "W4A16_AWQ", "reads plain weights only"),
    ],
)
def test_quantized_checkpoints(family: str, method: str, algo: str | None, reason: str | None) -> None:
    found = FAMILIES[family].unreadable(method, algo, 4)
    assert (found is None) == (reason is None)
    assert reason is None or reason in (found or "")


@pytest.mark.parametrize(
    ("family", "quantization", "possible"),
    [
        ("dbrx", "none", True),
        ("dbrx", "fp8", False),
        ("dbrx", "int8_wo", True),
        ("deepseek_v2", "int8_wo", False),
        ("nemotron_nas", "int4_wo", True),  # by the quantizer
    ],
)
def test_quantizations_of_a_plain_checkpoint(family: str, quantization: str, possible: bool) -> None:
    assert FAMILIES[family].quantizes(quantization) == possible


def test_classes_that_share_a_builder_may_have_other_converters() -> None:
    assert converter_family("LlamaForCausalLM", "LLaMAForCausalLM") == FAMILIES["llama"]
    assert converter_family("InternLM2ForCausalLM", "LLaMAForCausalLM") == FAMILIES["internlm2"]
    granite = converter_family("GraniteForCausalLM", "LLaMAForCausalLM")
    assert granite is not None
    assert granite.env
    assert converter_family("NewForCausalLM", None) is None
    assert [converter_family(name, "GPTForCausalLM") for name in NOT_CONVERTIBLE] == [None, None]
