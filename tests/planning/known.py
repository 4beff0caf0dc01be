"""Published configurations, reduced to the sizes that memory depends on, as surveys and specs without any files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trtspec.checkpoints import Survey
from trtspec.checkpoints.config import parse_config
from trtspec.hardware.catalogue import Gpu, find_gpu
from trtspec.planning.fit import PlanInputs
from trtspec.planning.inputs import plan_inputs
from trtspec.planning.shapes import ModelShape, model_shape
from trtspec.spec import ModelSource, Spec, SpecFile

__all__ = ["CONFIGS", "inputs_of", "shape_of", "spec_file", "survey_of", "surveys_of"]

_LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16"}


def _decoder(base: dict[str, Any], **sizes: Any) -> dict[str, Any]:
    names = {
        "layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads",
        "kv": "num_key_value_heads", "inner": "intermediate_size", "vocab": "vocab_size",
        "length": "max_position_embeddings", "tied": "tie_word_embeddings",
    }  # fmt: skip
    return {**base, **{names.get(key, key): value for key, value in sizes.items()}}


_L3 = {"vocab": 128256, "length": 131072, "kv": 8}
CONFIGS: dict[str, dict[str, Any]] = {
    "Llama-2-7B": _decoder(
        _LLAMA | {"torch_dtype": "float16"},
        layers=32, hidden=4096, heads=32, kv=32, inner=11008, vocab=32000, length=4096, tied=False,
    ),
    "Llama-2-70B": _decoder(
        _LLAMA | {"torch_dtype": "float16"},
        layers=80, hidden=8192, heads=64, kv=8, inner=28672, vocab=32000, length=4096, tied=False,
    ),
    "Llama-3.1-8B": _decoder(_LLAMA, layers=32, hidden=4096, heads=32, inner=14336, tied=False, **_L3),
    "Llama-3.1-70B": _decoder(_LLAMA, layers=80, hidden=8192, heads=64, inner=28672, tied=False, **_L3),
    "Llama-3.1-405B": _decoder(_LLAMA, layers=126, hidden=16384, heads=128, inner=53248, tied=False, **_L3),
    "Llama-3.2-1B": _decoder(_LLAMA, layers=16, hidden=2048, heads=32, head_dim=64, inner=8192, tied=True, **_L3),
    "Mistral-7B-v0.2": _decoder(
        {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "torch_dtype": "bfloat16"},
        layers=32, hidden=4096, heads=32, kv=8, inner=14336, vocab=32000, length=32768, tied=False,
    ),
    "Mistral-7B-v0.1": _decoder(
        {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "torch_dtype": "bfloat16"},
        layers=32, hidden=4096, heads=32, kv=8, inner=14336, vocab=32000, length=32768, tied=False,
        sliding_window=4096,
    ),
    "Mixtral-8x7B": _decoder(
        {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "torch_dtype": "bfloat16"},
        layers=32, hidden=4096, heads=32, kv=8, inner=14336, vocab=32000, length=32768, tied=False,
        num_local_experts=8, num_experts_per_tok=2,
    ),
    "Qwen2.5-0.5B": _decoder(
        {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "torch_dtype": "bfloat16"},
        layers=24, hidden=896, heads=14, kv=2, inner=4864, vocab=151936, length=32768, tied=True,
    ),
    "Qwen2.5-72B": _decoder(
        {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "torch_dtype": "bfloat16"},
        layers=80, hidden=8192, heads=64, kv=8, inner=29568, vocab=152064, length=32768, tied=False,
    ),
    "OPT-13B": _decoder(
        {"architectures": ["OPTForCausalLM"], "model_type": "opt", "torch_dtype": "float16"},
        layers=40, hidden=5120, heads=40, ffn_dim=20480, vocab=50272, length=2048,
    ),
    "GPT-J-6B": {
        "architectures": ["GPTJForCausalLM"], "model_type": "gptj", "torch_dtype": "float16", "n_layer": 28,
        "n_embd": 4096, "n_head": 16, "n_inner": None, "vocab_size": 50400, "n_positions": 2048,
        "tie_word_embeddings": False,
    },
    "DeepSeek-V2": _decoder(
        {"architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "torch_dtype": "bfloat16"},
        layers=60, hidden=5120, heads=128, kv=128, inner=12288, vocab=102400, length=163840, tied=False,
        kv_lora_rank=512, q_lora_rank=1536, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128,
        n_routed_experts=160, n_shared_experts=2, num_experts_per_tok=6, moe_intermediate_size=1536,
        first_k_dense_replace=1, moe_layer_freq=1,
    ),
    "Gemma-2-9B": _decoder(
        {"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "torch_dtype": "bfloat16"},
        layers=42, hidden=3584, heads=16, kv=8, head_dim=256, inner=14336, vocab=256000, length=8192,
        sliding_window=4096,
    ),
}  # fmt: skip


def survey_of(name: str, **changes: Any) -> Survey:
    """The checkpoint `name` without its weights and tokenizer."""
    return Survey(Path(name), parse_config({**CONFIGS[name], **changes}, name), None, None, None)


def shape_of(name: str, **source: Any) -> ModelShape:
    """The shape of `name` with the spec's section `source`."""
    changes = source.pop("config", {})
    return model_shape(survey_of(name, **changes), ModelSource.model_validate({"checkpoint": name, **source}))


def spec_file(**sections: Any) -> SpecFile:
    """A spec of Llama-3.1-70B and Llama-3.2-1B; `sections` are merged into it one level deep."""
    data: dict[str, Any] = {
        "name": "pair",
        "runtime": "tensorrt_llm",
        "target": {"checkpoint": "Llama-3.1-70B"},
        "draft": {"checkpoint": "Llama-3.2-1B"},
    }
    for name, section in sections.items():
        data[name] = {**data.get(name, {}), **section} if isinstance(section, dict) else section
    return SpecFile(Path("trtspec.yaml"), Spec.model_validate(data))


def surveys_of(file: SpecFile) -> dict[str, Survey]:
    """The surveys of a spec whose checkpoints are names in CONFIGS."""
    return {role: survey_of(str(getattr(file.spec, role).checkpoint)) for role in ("target", "draft")}


def inputs_of(file: SpecFile, gpu: str | Gpu | None = "H100-80GB-SXM", count: int | None = None) -> PlanInputs:
    """The plan's inputs on a GPU of the catalogue."""
    chosen = find_gpu(gpu) if isinstance(gpu, str) else gpu
    return plan_inputs(file, chosen, surveys_of(file), count=count)
