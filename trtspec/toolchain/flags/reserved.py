"""Flags of trtllm-build that `build.extra_flags` may not give: set by trtspec, or fatal to a build."""

from __future__ import annotations

__all__ = ["NEVER_ON", "OWN"]

_NEEDED = "must be on for draft tokens and is set by trtspec"
_FOLDERS = "trtspec chooses the folders"
_REPLACES = "it would replace sizes and modes that trtspec sets"

# name without dashes (aliases too) → where its value comes from
OWN: dict[str, str] = {
    "checkpoint_dir": _FOLDERS,
    "output_dir": _FOLDERS,
    "model_config": _REPLACES,
    "build_config": _REPLACES,
    "max_batch_size": "write build.max_batch_size",
    "max_input_len": "write build.max_input_len",
    "max_seq_len": "write build.max_seq_len",
    "max_decoder_seq_len": "write build.max_seq_len",
    "max_num_tokens": "write build.max_num_tokens",
    "max_beam_width": "it is 1: beam search and draft tokens exclude each other",
    "max_draft_len": "write speculation.max_draft_length",
    "speculative_decoding_mode": "it follows the role: draft_tokens_external for the target, none otherwise",
    "tokens_per_block": "write build.tokens_per_block",
    "logits_dtype": "write build.logits_dtype",
    "context_fmha": _NEEDED,
    "use_paged_context_fmha": _NEEDED,
    "remove_input_padding": _NEEDED,
    "use_fp8_context_fmha": "it follows target.kv_cache_dtype and draft.kv_cache_dtype",
    "kv_cache_type": "the cache is paged, which draft tokens need",
    "workers": "one for each rank, at most hardware.count",
    "output_timing_cache": "each build has its own, so that two builds do not write one file",
    "log_level": "it is info: trtspec reads the log",
    "model_cls_file": "the class is the checkpoint's",
    "model_cls_name": "the class is the checkpoint's",
    "input_timing_cache": "each build begins without one",
    "visualize_network": "nowhere, as its file would go with the build's working directory",
    "lora_dir": "none, as an adapter would go into every engine; merge it into the checkpoint",
    "dry_run": "it compiles no engine; use trtspec build --dry-run",
}
# name without dashes → why it may not be on (tensorrt_llm/commands/build.py of 1.2)
NEVER_ON: dict[str, str] = {
    "gather_context_logits": "the builder refuses it together with max_draft_len",
    "gather_all_token_logits": "it includes context logits, which the builder refuses together with max_draft_len",
    "gather_generation_logits": "it does nothing at build time since 1.0; generation logits are a run-time choice",
    "streamingllm": "the builder aborts: attention sinks are no longer supported",
}
