"""Flags that older guides name and no release from 1.0 on has: where each went."""

from __future__ import annotations

__all__ = ["GONE"]

_RUN_TIME = "is decided at run time now"
_AUTO_PARALLEL = (
    "went with automatic parallelism: tensor and pipeline ranks are target.tp, target.pp, draft.tp, draft.pp"
)

# name without dashes → what became of it. Sources: TensorRT-LLM's release notes (0.15 to 0.18, @b47198a2), the text of
# the command before and after (build.py @008b2b8d, @65f1d153), NVIDIA/TensorRT-LLM#2057, #2008, #1840, #2143.
GONE: dict[str, str] = {
    "max_output_len": "became max_seq_len, which counts prompt and answer together: write build.max_seq_len",
    "use_custom_all_reduce": f"{_RUN_TIME} (the all-reduce strategy is chosen by message size)",
    "multi_block_mode": f"{_RUN_TIME} (on by default)",
    "enable_xqa": "was removed in 0.16; those kernels are chosen by themselves",
    "use_embedding_sharing": "was removed in 0.16; a tied embedding is shared by itself",
    "context_fmha_fp32_acc": f"{_RUN_TIME} (enable_context_fmha_fp32_acc of the executor)",
    "paged_kv_cache": "became kv_cache_type; the cache is paged by default, which speculation needs",
    "auto_parallel": _AUTO_PARALLEL,
    "gpus_per_node": _AUTO_PARALLEL,
    "cluster_key": _AUTO_PARALLEL,
    "builder_force_num_profiles": "became the environment variable BUILDER_FORCE_NUM_PROFILES in 0.15",
    "use_context_fmha_for_generation": "is gone; generation has its own kernels",
    "tp_size": "belongs to the converter: write target.tp or draft.tp",
    "pp_size": "belongs to the converter: write target.pp or draft.pp",
}
