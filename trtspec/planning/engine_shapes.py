"""The shape and sizes of an engine that is there already, from its config.json and its rank files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trtspec.building.inspection.engine_config import EngineConfig, read_engine_config
from trtspec.checkpoints.config import ModelConfig, parse_config
from trtspec.checkpoints.parameters import parameter_count
from trtspec.errors import BuildError
from trtspec.planning.kv import KvLayout, kv_layout
from trtspec.planning.runtime_costs import EngineSizes
from trtspec.planning.shapes import CLASSES, ModelShape, used_experts
from trtspec.planning.weights import quantization_of

__all__ = ["given_engine_shape", "given_engine_sizes"]

_BLOCK = 32  # tokens_per_block where the engine does not say
# an engine names the model class only; the counting of parameters goes by model_type
_TYPES = {
    "LlamaForCausalLM": "llama", "MistralForCausalLM": "mistral", "MixtralForCausalLM": "mixtral",
    "Qwen2ForCausalLM": "qwen2", "Qwen2MoeForCausalLM": "qwen2_moe", "Qwen3ForCausalLM": "qwen3",
    "Qwen3MoeForCausalLM": "qwen3_moe", "GemmaForCausalLM": "gemma", "Gemma2ForCausalLM": "gemma2",
    "Gemma3ForCausalLM": "gemma3_text", "PhiForCausalLM": "phi", "Phi3ForCausalLM": "phi3",
    "FalconForCausalLM": "falcon",
}  # fmt: skip


def given_engine_sizes(folder: Path) -> EngineSizes:
    """The sizes in an engine's config.json; BuildError when it is not an engine."""
    config = read_engine_config(folder)
    return EngineSizes(
        max_batch_size=config.max_batch_size,
        max_seq_len=config.max_seq_len,
        max_num_tokens=config.max_num_tokens,
        max_draft_len=config.max_draft_len,
        tokens_per_block=config.tokens_per_block or _BLOCK,
        logits_bytes=2 if config.logits_dtype == "float16" else 4,
    )


def given_engine_shape(folder: Path) -> ModelShape:
    """The shape of the engine in `folder`; its weights are the sizes of its rank files. BuildError when it is none."""
    engine = read_engine_config(folder)
    model = _as_checkpoint(engine, folder)
    if not (engine.layers and engine.hidden_size and engine.heads and model.head_dim):
        raise BuildError(
            "names no num_hidden_layers, hidden_size, num_attention_heads or head_size: it cannot be planned with",
            where=str(folder / "config.json"),
            fix="give the checkpoint instead of the engine",
        )
    count = parameter_count(model)
    parameters = {name: count.by_class.get(name, 0) if count else 0 for name in CLASSES}
    return ModelShape(
        architecture=engine.architecture,
        origin="engine",
        parameters=parameters,
        layers=engine.layers,
        hidden=engine.hidden_size,
        heads=engine.heads,
        intermediate=model.intermediate or 4 * engine.hidden_size,
        gated=model.gated_mlp is not False,
        vocab_size=engine.vocab_size,
        dtype=engine.dtype,
        quantization=quantization_of(engine.quant_algo),
        kv=_kv(engine, model),
        tp=engine.tp,
        pp=engine.pp,
        experts=model.experts or 0,
        experts_per_token=used_experts(model),
        max_positions=engine.max_position_embeddings,
        rank_files=_rank_files(folder, engine),
    )


def _kv(engine: EngineConfig, model: ModelConfig) -> KvLayout:
    kinds = {"FP8": "fp8", "INT8": "int8"}
    return kv_layout(model, kinds.get(engine.kv_cache_quant_algo or "", engine.dtype))


def _rank_files(folder: Path, engine: EngineConfig) -> tuple[int, ...]:
    paths = [folder / f"rank{rank}.engine" for rank in range(engine.tp * engine.pp)]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        names = ", ".join(missing[:3])
        raise BuildError(f"{len(missing)} of {len(paths)} rank files are missing: {names}", where=str(folder))
    managed = [folder / f"rank{rank}_managed_weights.safetensors" for rank in range(len(paths))]
    return tuple(
        path.stat().st_size + (other.stat().st_size if other.is_file() else 0)
        for path, other in zip(paths, managed, strict=True)
    )


def _as_checkpoint(engine: EngineConfig, folder: Path) -> ModelConfig:
    """The engine's `pretrained_config` read like a checkpoint's config.json: most keys have the same names."""
    section: Mapping[str, Any] = engine.data.get("pretrained_config") or {}
    moe = section.get("moe") if isinstance(section.get("moe"), dict) else {}
    data = {
        **{key: value for key, value in section.items() if key not in ("quantization", "rotary_scaling", "moe")},
        "architectures": [engine.architecture],
        "model_type": section.get("qwen_type") or section.get("model_type") or _TYPES.get(engine.architecture),
        "tie_word_embeddings": bool(section.get("share_embedding_table")),
        "num_local_experts": (moe or {}).get("num_experts") or None,
        "num_experts_per_tok": (moe or {}).get("top_k") or None,
    }
    return parse_config(data, str(folder / "config.json"))
