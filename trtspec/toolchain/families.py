"""Which converter makes a TensorRT-LLM checkpoint of which Hugging Face class, and what each can do.

Read from examples/models/{core,contrib}/*/convert_checkpoint.py and their READMEs (commits: trtspec.toolchain.flags);
the README of a family names the converter where it has none of its own (Mixtral, Granite, InternLM, Exaone, Skywork and
Arctic: Llama's; Nemotron: GPT's). What quantize.py knows: examples/quantization/quantize.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

__all__ = ["FAMILIES", "NOT_CONVERTIBLE", "WEIGHT_ONLY", "Family", "converter_family"]

_INT = ("int8", "int4")
# quantization in the spec → --weight_only_precision of the converters
WEIGHT_ONLY = {"int8_wo": "int8", "int4_wo": "int4"}
_GPTQ = ("W4A16_GPTQ", "W8A16_GPTQ")
_AWQ_4, _GPTQ_4 = ("W4A16_AWQ",), _GPTQ[:1]


@dataclass(frozen=True)
class Family:
    """A converter script: where it lies below examples/, and what it can do.

    `pipeline`: it splits layers over ranks. `weight_only`: precisions of --weight_only_precision. `experts`: it takes
    --moe_tp_size and --moe_ep_size. `carried`: method of a quantized Hugging Face checkpoint → the QuantAlgos that it
    takes over by itself. `quantizer`: ModelOpt's quantize.py knows the family. `env`: what it needs in its environment.
    """

    name: str
    place: str
    pipeline: bool = True
    weight_only: tuple[str, ...] = _INT
    experts: bool = False
    carried: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    quantizer: bool = True
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def script(self) -> str:
        """Path of the converter below examples/."""
        return f"{self.place}/convert_checkpoint.py"

    def quantizes(self, quantization: str) -> bool:
        """True when a plain checkpoint can be built with the spec's `quantization`, by the converter or quantize.py."""
        return quantization == "none" or WEIGHT_ONLY.get(quantization) in self.weight_only or self.quantizer

    def unreadable(self, method: str, algo: str | None, bits: int | None) -> str | None:
        """Why a checkpoint that is quantized already is not read ("quantized by …"); None when it is."""
        has = algo or f"{bits or 'unknown'} bits"
        if method.lower() not in self.carried:
            reads = ", ".join(self.carried) or "plain weights only"
            return f"quantized by {method} ({has}); the converter for {self.name} reads {reads}"
        if algo not in (algos := self.carried[method.lower()]):
            return f"quantized by {method} to {has}; the converter for {self.name} reads {' and '.join(algos)}"
        return None


def _core(name: str, folder: str | None = None, **traits: object) -> Family:
    return Family(name, f"models/core/{folder or name}", **traits)  # type: ignore[arg-type]  # traits by name


def _contrib(name: str, **traits: object) -> Family:
    return Family(name, f"models/contrib/{name}", **traits)  # type: ignore[arg-type]  # traits by name


_LLAMA_READS = {
    "awq": _AWQ_4,
    "gptq": _GPTQ_4,
    "fbgemm_fp8": ("FP8_PER_CHANNEL_PER_TOKEN",),
    "modelopt": ("FP8", "NVFP4"),
}
FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        _core("llama", experts=True, carried=_LLAMA_READS),
        _core("qwen", experts=True, carried={"awq": _AWQ_4, "gptq": _GPTQ}),
        _core("gemma", pipeline=False),
        _core("phi", pipeline=False, experts=True),
        _core("gpt", carried={"modelopt": ("FP8",)}),
        _core("commandr", quantizer=False),
        _core("internlm2"),
        _core("nemotron_nas", weight_only=()),
        _core("chatglm", "glm-4-9b", pipeline=False),
        _contrib("falcon"),
        _contrib("baichuan"),
        _contrib("gptj"),
        _contrib("gptneox", pipeline=False, quantizer=False),
        _contrib("opt", pipeline=False, quantizer=False),
        _contrib("bloom", pipeline=False),
        _contrib("mpt"),
        _contrib("dbrx", experts=True, quantizer=False),
        _contrib("deepseek_v1", experts=True, weight_only=()),
        _contrib("deepseek_v2", experts=True, weight_only=(), quantizer=False),
    )
}

# TensorRT-LLM class → family; InternLM2 and Granite are Llamas there, one with a converter of its own
_BY_CLASS = {
    "LLaMAForCausalLM": "llama", "QWenForCausalLM": "qwen", "GemmaForCausalLM": "gemma", "PhiForCausalLM": "phi",
    "Phi3ForCausalLM": "phi", "GPTForCausalLM": "gpt", "CohereForCausalLM": "commandr",
    "DeciLMForCausalLM": "nemotron_nas", "ChatGLMForCausalLM": "chatglm", "FalconForCausalLM": "falcon",
    "BaichuanForCausalLM": "baichuan", "GPTJForCausalLM": "gptj", "GPTNeoXForCausalLM": "gptneox",
    "OPTForCausalLM": "opt", "BloomForCausalLM": "bloom", "MPTForCausalLM": "mpt", "DbrxForCausalLM": "dbrx",
    "DeepseekForCausalLM": "deepseek_v1", "DeepseekV2ForCausalLM": "deepseek_v2",
}  # fmt: skip
_OWN_CONVERTER = {"InternLM2ForCausalLM": "internlm2"}
# examples/models/core/granite/README.md: its conversion needs the older path of Llama's converter
_GRANITE = ("GraniteForCausalLM", "GraniteMoeForCausalLM")
_OLD_PATH = {"TRTLLM_DISABLE_UNIFIED_CONVERTER": "1"}

# Hugging Face class that the model map has, but no converter reads → why
NOT_CONVERTIBLE = {
    "Grok1ModelForCausalLM": "the converter for Grok reads xAI's own JAX release, not a Hugging Face folder",
    "GPTForCausalLM": "this is TensorRT-LLM's name for a NeMo checkpoint; trtspec reads Hugging Face folders",
}


def converter_family(architecture: str, builder: str | None) -> Family | None:
    """The family of a Hugging Face class that TensorRT-LLM's class `builder` builds; None when nothing converts it."""
    if builder is None or architecture in NOT_CONVERTIBLE:
        return None
    family = FAMILIES[_OWN_CONVERTER.get(architecture) or _BY_CLASS[builder]]
    return replace(family, env=_OLD_PATH) if architecture in _GRANITE else family
