"""Pairs of known models reduced to metadata: configuration and tokenizer, no weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests.builders import tiny_tokenizer_files
from trtspec.spec import SpecFile, load_spec

__all__ = ["llama_config", "metadata_pair", "metadata_spec"]


def llama_config(layers: int, hidden: int, heads: int, intermediate: int, **more: Any) -> dict[str, Any]:
    """A config.json of the Llama 3.1 family, sizes and all, as it is on the hub."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "rope_scaling": {
            "factor": 8.0,
            "high_freq_factor": 4.0,
            "low_freq_factor": 1.0,
            "original_max_position_embeddings": 8192,
            "rope_type": "llama3",
        },
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": 0,
        "eos_token_id": 2,
        **more,
    }


LLAMA_70B = llama_config(80, 8192, 64, 28672)
LLAMA_1B = llama_config(16, 2048, 32, 8192, head_dim=64, tie_word_embeddings=True)


def metadata_pair(folder: Path, target: dict[str, Any] = LLAMA_70B, draft: dict[str, Any] = LLAMA_1B) -> None:
    """Write the folders `target` and `draft` below `folder`."""
    for role, config in (("target", target), ("draft", draft)):
        tiny_tokenizer_files(folder / role)
        (folder / role / "config.json").write_text(json.dumps(config))
        (folder / role / "generation_config.json").write_text(json.dumps({"eos_token_id": [2], "bos_token_id": 0}))


def metadata_spec(folder: Path, **overrides: Any) -> SpecFile:
    """A spec for a Llama 70B in FP8 on four GPUs with a 1B draft; `overrides` replace top-level keys, None drops it."""
    if not (folder / "target").exists():
        metadata_pair(folder)
    data: dict[str, Any] = {
        "version": 1,
        "name": "llama70b",
        "runtime": "tensorrt_llm",
        "target": {"checkpoint": "target", "quantization": "fp8", "kv_cache_dtype": "fp8", "tp": 4},
        "draft": {"checkpoint": "draft"},
        "speculation": {"draft_length": 4, "max_draft_length": 8},
        "build": {"max_batch_size": 32, "max_seq_len": 8192, "max_num_tokens": 8192},
        "hardware": {"gpu": "H100-80GB-SXM", "count": 4},
        **overrides,
    }
    path = folder / "trtspec.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in data.items() if value is not None}, sort_keys=False))
    return load_spec(path)
