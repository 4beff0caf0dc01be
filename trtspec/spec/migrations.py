"""Keys that people bring from trtllm-build's command line or older guides, and what to write instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["migration_hint"]

_BY_ROLE = "it follows the role: the target is built with it, baseline and draft without"
_ALWAYS_ON = "it is always on: draft tokens need it"
_RUN_TIME = "it is decided at run time since TensorRT-LLM 1.0; leave it out"
_EXTRA = "it is a trtllm-build flag: write it under build.extra_flags"

# section → key → what to write instead
_MOVED: dict[str, dict[str, str]] = {
    "build": {
        "max_draft_len": "write speculation.max_draft_length",
        "speculative_decoding_mode": _BY_ROLE,
        "max_beam_width": "it is 1: beam search and draft tokens exclude each other",
        "use_paged_context_fmha": _ALWAYS_ON,
        "context_fmha": _ALWAYS_ON,
        "remove_input_padding": _ALWAYS_ON,
        "paged_kv_cache": "it became kv_cache_type, and the cache is always paged here",
        "kv_cache_type": "the cache is always paged here",
        "use_custom_all_reduce": _RUN_TIME,
        "multi_block_mode": _RUN_TIME,
        "context_fmha_fp32_acc": _RUN_TIME,
        "enable_xqa": "it was removed in TensorRT-LLM 0.16; leave it out",
        "use_embedding_sharing": "it was removed in TensorRT-LLM 0.16: a tied embedding is shared by itself",
        "auto_parallel": "write target.tp, target.pp, draft.tp and draft.pp",
        "gpus_per_node": "write hardware.count",
        "cluster_key": "write hardware.gpu",
        "gather_context_logits": "the builder refuses it together with draft tokens",
        "gather_generation_logits": "it is a run-time choice: write speculation.acceptance: logits",
        "workers": "one for each rank, at most hardware.count",
        "gemm_plugin": _EXTRA,
        "reduce_fusion": _EXTRA,
        "multiple_profiles": _EXTRA,
        "tp_size": "write target.tp and draft.tp",
        "pp_size": "write target.pp and draft.pp",
        "dtype": "write target.dtype and draft.dtype",
        "quantization": "write target.quantization and draft.quantization",
    },
    "target": {
        "tp_size": "write tp",
        "pp_size": "write pp",
        "model_dir": "write checkpoint",
        "engine_dir": "write engine",
        "qformat": "write quantization",
        "kv_cache_quant_algo": "write kv_cache_dtype",
        "quant_algo": "write quantization",
    },
}
_MOVED["draft"] = {
    **_MOVED["target"],
    "prompt_lookup_min": "write lookup_match",
    "prompt_lookup_max": "a longer match always counts more; write lookup_match for the shortest",
    "prompt_lookup_num_tokens": "write speculation.draft_length, or lookup_length with method: lookup",
    "num_speculative_tokens": "write speculation.draft_length",
    "assistant_confidence_threshold": "write confidence_threshold",
    "model": "write checkpoint",
}
_MOVED["speculation"] = {
    "num_draft_tokens": "write draft_length",
    "max_draft_len": "write max_draft_length",
    "use_logits": "write acceptance: logits",
}
_MOVED["hardware"] = {"gpus": "write count", "gpu_count": "write count", "num_gpus": "write count"}


def migration_hint(loc: Sequence[int | str], document: Mapping[str, Any]) -> str | None:
    """What to write instead of the unknown key at `loc` of a spec; None when it is no old name.

    `max_output_len` is no other word for max_seq_len, which counts the prompt as well: the sum is computed
    (NVIDIA/TensorRT-LLM#2057, #1840).
    """
    if len(loc) != 2:
        return None
    section, key = str(loc[0]), str(loc[1])
    if (section, key) == ("build", "max_output_len"):
        return _output_length(document)
    return _MOVED.get(section, {}).get(key)


def _output_length(document: Mapping[str, Any]) -> str:
    build = document.get("build")
    values = build if isinstance(build, Mapping) else {}
    output, prompt = values.get("max_output_len"), values.get("max_input_len")
    given = f", {values['max_seq_len']} is given" if "max_seq_len" in values else ""
    if type(output) is int and type(prompt) is int:
        total = prompt + output
        return f"max_seq_len is prompt + answer: write max_seq_len: {total} ({prompt} + {output}{given}), not {output}"
    if type(output) is int:
        return f"max_seq_len is prompt + answer: write the longest prompt + {output}{given}"
    return "write max_seq_len, which is prompt + answer"
