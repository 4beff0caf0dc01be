"""`pretrained_config`: a Hugging Face configuration in the words of a TensorRT-LLM engine. Pure."""

from __future__ import annotations

from typing import Any

from trtspec.checkpoints.config import ModelConfig

__all__ = ["pretrained_config"]

# config.json keys that keep their name when a checkpoint has them
_CARRIED = ("intermediate_size", "head_dim", "rms_norm_eps", "norm_epsilon", "hidden_act", "tie_word_embeddings")


def pretrained_config(config: ModelConfig, dtype: str) -> dict[str, Any]:
    """The fields that TensorRT-LLM writes for a network, as far as `config` names them; `dtype` as built."""
    fields: dict[str, Any] = {
        "architecture": config.architecture,
        "model_type": config.model_type,
        "dtype": dtype,
        "num_hidden_layers": config.layers,
        "hidden_size": config.hidden,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.max_positions,
        "mapping": {"world_size": 1, "tp_size": 1, "pp_size": 1},
        "quantization": {"quant_algo": None, "kv_cache_quant_algo": None},
    }
    carried = {key: config.data[key] for key in _CARRIED if config.data.get(key) is not None}
    return {**{key: value for key, value in fields.items() if value is not None}, **carried}
