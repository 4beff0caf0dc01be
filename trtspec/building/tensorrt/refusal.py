"""Why TensorRT-LLM can make no engine of a model's class, and what to do instead."""

from __future__ import annotations

from dataclasses import dataclass

from trtspec.checkpoints.architectures import TENSORRT_LLM, architecture_support
from trtspec.toolchain.families import NOT_CONVERTIBLE

__all__ = ["Refusal", "refusal"]


@dataclass(frozen=True)
class Refusal:
    """Why no engine can be made of a class, and what to do instead."""

    why: str
    fix: str


_INSTEAD = (
    "measure the pair with runtime: torch, or serve it with TensorRT-LLM's PyTorch backend (trtllm-serve), "
    "which needs no engines"
)
_OTHER_MODEL = "use another model; the engine path has Llama, Qwen2, Qwen3, Gemma, Mistral, Phi-3 and others"


def refusal(architecture: str | None) -> Refusal | None:
    """Why a Hugging Face class cannot be built into an engine; None when it can."""
    if architecture is None:
        return Refusal("config.json names no architecture", 'add "architectures": ["…ForCausalLM"] to it')
    if architecture in NOT_CONVERTIBLE:
        return Refusal(f"{architecture}: {NOT_CONVERTIBLE[architecture]}", _OTHER_MODEL)
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
