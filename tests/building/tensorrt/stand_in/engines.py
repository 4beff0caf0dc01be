"""The configuration that an engine ends with: what was asked, changed as TensorRT-LLM's builder changes it.

Source: tensorrt_llm/builder.py of the 1.2.0 release candidates (`build`, `_init_max_seq_len`) and the token check in
tensorrt_llm/_common.py. Kept apart from trtspec's own computation on purpose: the two are compared.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

from tests.building.tensorrt.stand_in.arguments import facts
from tests.building.tensorrt.stand_in.behaviour import log, sm

__all__ = ["build_config_of"]

_FP8_FAMILY = ("FP8", "W4A8_AWQ", "NVFP4")
_FUSING = ("LlamaForCausalLM", "Gemma2ForCausalLM", "MedusaForCausalLM")


def build_config_of(arguments: argparse.Namespace, model: dict[str, Any]) -> dict[str, Any]:
    """`build_config` of the engine's config.json; RuntimeError for what the GPU's generation refuses."""
    table = facts("trtllm_build")
    given = vars(arguments)
    config = {name: given.get(name, default) for name, default in table["build_config"].items()}
    config = {name: value for name, value in config.items() if name not in table["build_config_not_written"]}
    config["max_prompt_embedding_table_size"] = config["max_prompt_embedding_table_size"] or 0
    mode = table["speculative_modes"].get(arguments.speculative_decoding_mode, table["no_speculation"])
    config["speculative_decoding_mode"] = mode
    plugins = _plugin_config(given, table, model)
    _set_sizes(config, plugins, model)
    if mode != table["no_speculation"]:
        config["max_seq_len"] += config["max_draft_len"]
        tokens = config["max_batch_size"] * (config["max_draft_len"] + 1)
        if config["max_num_tokens"] < tokens:
            log(f"New max_num_tokens is set to {tokens}.")
            config["max_num_tokens"] = tokens
    _set_attention(plugins, model["quantization"])
    _refuse_blackwell(model["quantization"])
    lora = {"lora_dir": arguments.lora_dir or [], "lora_ckpt_source": "hf", "max_lora_rank": arguments.max_lora_rank}
    return {**config, "plugin_config": plugins, "lora_config": lora}


def _plugin_config(given: dict[str, Any], table: dict[str, Any], model: dict[str, Any]) -> dict[str, Any]:
    plugins: dict[str, Any] = {"dtype": model["dtype"], **table["plugin_fields_without_flag"]}
    for row in table["plugin_flags"]:
        name = row["flag"].removeprefix("--")
        value = given[name]
        switch = row.get("choices") == ["enable", "disable"]
        words = {"enable": True, "disable": False if switch else None, "auto": model["dtype"]}
        plugins[name] = words.get(value, value) if isinstance(value, str) else value
    plugins["manage_weights"] = given["fast_build"]
    mapping = model["mapping"]
    if plugins["reduce_fusion"] and (mapping["tp_size"] == 1 or model["architecture"] not in _FUSING):
        log("Overriding reduce_fusion to False", "W")
        plugins["reduce_fusion"] = False
    plugins["user_buffer"] = plugins["user_buffer"] and plugins["reduce_fusion"]
    plugins["nccl_plugin"] = model["dtype"] if mapping["world_size"] > 1 else None
    if model["quantization"]["quant_algo"] == "NVFP4" and given["gemm_plugin"] != "disable":
        plugins["gemm_plugin"] = "nvfp4"
    return plugins


def _set_sizes(config: dict[str, Any], plugins: dict[str, Any], model: dict[str, Any]) -> None:
    positions = model["max_position_embeddings"]
    scaling = model.get("rotary_scaling") or {}
    kind = scaling.get("type", scaling.get("rope_type"))
    factor = 1 if kind in ("su", "longrope", "llama3") else scaling.get("factor", 1)
    if config["max_seq_len"] is None:
        config["max_seq_len"] = math.ceil((positions or 2048) * factor)
    elif positions is not None and config["max_seq_len"] > positions * factor:
        log(f"max_seq_len {config['max_seq_len']} is larger than max_position_embeddings {positions}", "W")
    config["max_input_len"] = min(config["max_input_len"], config["max_seq_len"])
    _set_tokens(config, plugins)


def _set_tokens(config: dict[str, Any], plugins: dict[str, Any]) -> None:
    most = config["max_seq_len"] * config["max_batch_size"]
    if not plugins["remove_input_padding"]:
        config["max_num_tokens"] = most
        return
    if config["opt_num_tokens"] is None and not plugins["multiple_profiles"]:
        config["opt_num_tokens"] = min(config["max_batch_size"] * config["max_beam_width"], config["max_num_tokens"])
    if config["max_num_tokens"] > 16384:
        log("Specifying a `max_num_tokens` larger than 16384 is usually not recommended", "W")
    config["max_num_tokens"] = min(config["max_num_tokens"], most)
    if not plugins["context_fmha"]:
        config["max_num_tokens"] = max(config["max_num_tokens"], config["max_input_len"])
    else:
        config["max_num_tokens"] = max(config["max_num_tokens"], plugins["tokens_per_block"])
    if config["opt_num_tokens"] is not None:
        config["opt_num_tokens"] = min(config["opt_num_tokens"], config["max_num_tokens"])


def _set_attention(plugins: dict[str, Any], quantization: dict[str, Any]) -> None:
    """The switches for paged and FP8 context attention, which some precisions turn off without failing."""
    fp8_cache = quantization["kv_cache_quant_algo"] == "FP8"
    if not plugins["context_fmha"]:
        plugins["use_fp8_context_fmha"] = plugins["use_paged_context_fmha"] = False
    elif quantization["quant_algo"] not in _FP8_FAMILY or sm() < 89:
        plugins["use_fp8_context_fmha"] = False
        if plugins["use_paged_context_fmha"] and fp8_cache:
            log("FP8 Paged Context FMHA is disabled because FP8 context FMHA is disabled.", "W")
            plugins["use_paged_context_fmha"] = False
    elif plugins["use_paged_context_fmha"]:
        plugins["use_fp8_context_fmha"] = fp8_cache
    if quantization["kv_cache_quant_algo"] == "INT8" and plugins["use_paged_context_fmha"]:
        log("Paged Context FMHA is disabled because it doesn't work with int8 kv cache currently.", "W")
        plugins["use_paged_context_fmha"] = False


def _refuse_blackwell(quantization: dict[str, Any]) -> None:
    if not 100 <= sm() < 120:
        return
    algorithm = str(quantization["quant_algo"] or "")
    if algorithm in ("W8A16", "W4A16") or quantization["kv_cache_quant_algo"] == "INT8":
        raise RuntimeError("INT8/INT4 quantization is not supported on SM>=100.")
    if algorithm.startswith("W8A8_SQ"):
        raise RuntimeError("SmoothQuant is not supported on SM>=100.")
    if algorithm == "FP8_PER_CHANNEL_PER_TOKEN":
        raise RuntimeError("Per-channel or per-token scaling is not supported on SM>=100.")
