"""Engine folders as TensorRT-LLM writes them, of any version, with values changed by dotted key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trtspec.building.inspection import NO_QUANT, Expectation
from trtspec.spec import Role

__all__ = ["engine_config", "engine_folder", "expected"]

_LLAMA3_SCALING = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}


def engine_config(version: str = "1.2.1", /, **changes: Any) -> dict[str, Any]:
    """config.json of a target engine; `changes` has dots written as two underscores, `...` removes a key.

    Until 1.1: kv_cache_type in capitals, a section auto_parallel_config; numbers for booleans in gather_*.
    """
    old = version.startswith(("0.", "1.0", "1.1"))
    build: dict[str, Any] = {
        "max_input_len": 8191,
        "max_seq_len": 8200,
        "opt_batch_size": 8,
        "max_batch_size": 32,
        "max_beam_width": 1,
        "max_num_tokens": 8192,
        "opt_num_tokens": 32,
        "max_prompt_embedding_table_size": 0,
        "kv_cache_type": "PAGED" if old else "paged",
        "gather_context_logits": 0 if old else False,
        "gather_generation_logits": 0 if old else False,
        "strongly_typed": True,
        "force_num_profiles": None,
        "profiling_verbosity": "layer_names_only",
        "enable_debug_output": False,
        "max_draft_len": 8,
        "speculative_decoding_mode": 2,
        "use_refit": False,
        "input_timing_cache": None,
        "output_timing_cache": "model.cache",
        "lora_config": {"lora_dir": [], "lora_ckpt_source": "hf", "max_lora_rank": 64},
        "weight_sparsity": False,
        "weight_streaming": False,
        "plugin_config": {
            "dtype": "bfloat16",
            "gpt_attention_plugin": "auto",
            "gemm_plugin": "auto",
            "nccl_plugin": None,
            "context_fmha": True,
            "paged_kv_cache": True if old else None,
            "remove_input_padding": True,
            "reduce_fusion": False,
            "tokens_per_block": 32,
            "use_paged_context_fmha": True,
            "use_fp8_context_fmha": False,
            "multiple_profiles": False,
            "manage_weights": False,
        },
        "use_strip_plan": False,
        "max_encoder_input_len": 1024,
    }
    if old:
        build["auto_parallel_config"] = {"world_size": 1, "gpus_per_node": 8, "cluster_key": "L4"}
    document: dict[str, Any] = {
        "version": version,
        "pretrained_config": {
            "architecture": "LlamaForCausalLM",
            "dtype": "bfloat16",
            "logits_dtype": "float32",
            "vocab_size": 128256,
            "hidden_size": 2048,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_size": 64,
            "max_position_embeddings": 131072,
            "rotary_base": 500000.0,
            "rotary_scaling": dict(_LLAMA3_SCALING),
            "mapping": {
                "world_size": 1, "gpus_per_node": 8, "cp_size": 1, "tp_size": 1, "pp_size": 1,
                "moe_tp_size": 1, "moe_ep_size": 1,
            },
            "quantization": {"quant_algo": None, "kv_cache_quant_algo": None, "group_size": 128},
        },
        "build_config": build,
    }  # fmt: skip
    for name, value in changes.items():
        _change(document, name.split("__"), value)
    return document


def _change(document: dict[str, Any], path: list[str], value: Any) -> None:
    *parents, last = path
    for part in parents:
        document = document[part]
    if value is ...:
        document.pop(last)
    else:
        document[last] = value


def engine_folder(
    folder: Path, version: str = "1.2.1", *, manifest: dict[str, Any] | None = None, **changes: Any
) -> Path:
    """An engine folder with a config.json as `engine_config` makes it and an engine file for each rank."""
    folder.mkdir(parents=True)
    document = engine_config(version, **changes)
    (folder / "config.json").write_text(json.dumps(document, indent=4))
    for rank in range(document["pretrained_config"]["mapping"]["world_size"]):
        (folder / f"rank{rank}.engine").write_bytes(b"plan")
    if manifest is not None:
        (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def expected(role: Role = "target", **changes: Any) -> Expectation:
    """What the folder of `engine_folder` fulfils."""
    values: dict[str, Any] = {
        "version": "1.2.1",
        "architecture": "LlamaForCausalLM",
        "dtype": "bfloat16",
        "logits_dtype": "float32",
        "quant_algo": NO_QUANT,
        "kv_cache_quant_algo": NO_QUANT,
        "tp": 1,
        "pp": 1,
        "vocab_size": 128256,
        "tokenizer_width": 128256,
        "max_batch_size": 32,
        "max_seq_len": 8200,
        "max_num_tokens": 8192,
        "max_draft_len": 8 if role == "target" else 0,
        "draft_length": 5 if role == "target" else None,
        "tokens_per_block": 32,
        "rotary_scaling": dict(_LLAMA3_SCALING),
        **changes,
    }
    return Expectation(role, **values)
