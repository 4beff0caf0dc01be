"""Which converter makes a TensorRT-LLM checkpoint of which Hugging Face class, and what each can do.

Read from examples/models/{core,contrib}/*/convert_checkpoint.py and their READMEs (commits: trtspec.toolchain.flags);
the README of a family names the converter where it has none of its own (Mixtral, Granite, InternLM, Exaone, Skywork and
Arctic: Llama's; Nemotron: GPT's).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trtspec.checkpoints.architectures import TENSORRT_LLM, architecture_support
from trtspec.checkpoints.config import ModelConfig
from trtspec.toolchain.flags import converter_flags

__all__ = ["FAMILIES", "Family", "Refusal", "family_of", "refusal"]

_INT = ("int8", "int4")


@dataclass(frozen=True)
class Family:
    """A converter script: where it lies below examples/, and what it can do.

    `pipeline`: it splits layers over ranks. `weight_only`: precisions of --weight_only_precision. `experts`: it takes
    --moe_tp_size and --moe_ep_size. `carried`: quantization methods of a Hugging Face checkpoint that it takes over by
    itself. `quantizer`: ModelOpt's quantize.py knows the family. `env`: what it needs in its environment.
    """

    name: str
    place: str
    pipeline: bool = True
    weight_only: tuple[str, ...] = _INT
    experts: bool = False
    carried: tuple[str, ...] = ()
    quantizer: bool = True
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def script(self) -> str:
        """Path of the converter below examples/."""
        return f"{self.place}/convert_checkpoint.py"

    def has(self, flag: str, minor: str) -> bool:
        """True when the converter has `flag` in a minor release."""
        return converter_flags(self.name, minor).find(flag) is not None


def _core(name: str, folder: str | None = None, **traits: object) -> Family:
    return Family(name, f"models/core/{folder or name}", **traits)  # type: ignore[arg-type]  # traits by name


def _contrib(name: str, **traits: object) -> Family:
    return Family(name, f"models/contrib/{name}", **traits)  # type: ignore[arg-type]  # traits by name


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        _core("llama", experts=True, carried=("awq", "gptq", "fbgemm_fp8", "modelopt")),
        _core("qwen", experts=True, carried=("awq", "gptq")),
        _core("gemma", pipeline=False),
        _core("phi", pipeline=False, experts=True),
        _core("gpt", carried=("modelopt",)),
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


@dataclass(frozen=True)
class Refusal:
    """Why no engine can be made of a class, and what to do instead."""

    why: str
    fix: str


_NOT_CONVERTIBLE = {
    "Grok1ModelForCausalLM": "the converter for Grok reads xAI's own JAX release, not a Hugging Face folder",
    "GPTForCausalLM": "this is TensorRT-LLM's name for a NeMo checkpoint; trtspec reads Hugging Face folders",
}
_INSTEAD = (
    "measure the pair with runtime: torch, or serve it with TensorRT-LLM's PyTorch backend (trtllm-serve), "
    "which needs no engines"
)
_OTHER_MODEL = "use another model; the engine path has Llama, Qwen2, Qwen3, Gemma, Mistral, Phi-3 and others"


def refusal(architecture: str | None) -> Refusal | None:
    """Why a Hugging Face class cannot be built into an engine; None when it can."""
    if architecture is None:
        return Refusal("config.json names no architecture", 'add "architectures": ["…ForCausalLM"] to it')
    if architecture in _NOT_CONVERTIBLE:
        return Refusal(f"{architecture}: {_NOT_CONVERTIBLE[architecture]}", _OTHER_MODEL)
    if architecture in TENSORRT_LLM:
        return None
    support = architecture_support(architecture, "tensorrt_llm")
    if support == "recurrent":
        return Refusal(
            f"{architecture} has recurrent state, which cannot go back to before a draft token", _OTHER_MODEL
        )
    if support == "not_causal":
        return Refusal(f"{architecture} is no language model that continues a text", _OTHER_MODEL)
    return Refusal(f"{architecture} is not in the model map of TensorRT-LLM's engine path (1.0 to 1.2)", _INSTEAD)


def family_of(config: ModelConfig) -> Family | None:
    """The family of a model's class; None when no engine can be made of it (`refusal` says why)."""
    architecture = config.architecture
    if architecture is None or refusal(architecture) is not None:
        return None
    family = FAMILIES[_OWN_CONVERTER.get(architecture) or _BY_CLASS[TENSORRT_LLM[architecture]]]
    if architecture in _GRANITE:
        return Family(**{**vars(family), "env": _OLD_PATH})
    return family
