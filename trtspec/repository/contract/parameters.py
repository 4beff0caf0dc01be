"""Parameters of the C++ `tensorrt_llm` model.

Read in config.pbtxt of the same templates as the tensors, and in the backend that reads them (inflight_batcher_llm/src
of tensorrtllm_backend, triton_backend/inflight_batcher_llm/src of NVIDIA/TensorRT-LLM: model_instance_state.cc,
model_state.cc, utils.cc). What changed from 0.19 to 1.2: `enable_trt_overlap` is commented out in the templates up to
1.1 and is read again in 1.2. A missing key costs a warning and its default, but for those that must exist.
"""

from __future__ import annotations

from collections.abc import Iterator

from trtspec.repository.contract.rows import LeafParameter

__all__ = ["LEAF_PARAMETERS", "WORKER_PATH"]

WORKER_PATH = "/opt/tritonserver/backends/tensorrtllm/trtllmExecutorWorker"
_BATCHING = ("inflight_fused_batching", "inflight_batching", "V1", "v1")
_DECODERS = ("top_k", "top_p", "top_k_top_p", "beam_search", "medusa", "redrafter", "lookahead", "eagle")


def _int(key: str, default: int | None = None, low: int = 0) -> LeafParameter:
    return LeafParameter(key=key, kind="int", default=None if default is None else str(default), low=low)


def _share(key: str, default: float | None = None) -> LeafParameter:
    text = None if default is None else str(default)
    return LeafParameter(key=key, kind="float", default=text, low=0, high=1)


def _flag(key: str, *, default: bool) -> LeafParameter:
    return LeafParameter(key=key, kind="bool", default="true" if default else "false")


def _needed_keys() -> Iterator[LeafParameter]:
    """Keys of guided decoding: they may be empty, but without them the model does not load."""
    yield LeafParameter(key="tokenizer_dir", kind="path", default="", must_exist=True)
    yield LeafParameter(
        key="guided_decoding_backend", kind="choice", default="", choices=("xgrammar",), must_exist=True
    )
    yield LeafParameter(key="xgrammar_tokenizer_info_path", kind="path", default="", must_exist=True)


LEAF_PARAMETERS: tuple[LeafParameter, ...] = (
    _int("max_beam_width", 1, low=1),
    LeafParameter(key="FORCE_CPU_ONLY_INPUT_TENSORS", kind="choice", default="no", choices=("no",)),
    LeafParameter(key="gpt_model_type", kind="choice", choices=_BATCHING, must_exist=True, needs_value=True),
    LeafParameter(key="gpt_model_path", kind="path", must_exist=True, needs_value=True),
    LeafParameter(key="encoder_model_path", kind="path", default=""),
    _int("max_tokens_in_paged_kv_cache", low=1),
    LeafParameter(key="max_attention_window_size", kind="numbers"),
    _int("sink_token_length"),
    LeafParameter(
        key="batch_scheduler_policy",
        kind="choice",
        default="guaranteed_no_evict",
        choices=("guaranteed_no_evict", "max_utilization"),
    ),
    _share("kv_cache_free_gpu_mem_fraction", 0.9),
    _share("cross_kv_cache_fraction"),
    _int("kv_cache_host_memory_bytes", 0),
    _flag("kv_cache_onboard_blocks", default=True),
    LeafParameter(key="enable_trt_overlap", kind="bool", default="false", since=(1, 2)),
    _flag("exclude_input_in_output", default=False),
    _int("cancellation_check_period_ms", 100),
    _int("stats_check_period_ms", 100),
    _int("iter_stats_max_iterations", 1000),
    _int("request_stats_max_iterations", 0),
    _flag("enable_kv_cache_reuse", default=True),
    _flag("normalize_log_probs", default=True),
    _flag("enable_chunked_context", default=False),
    LeafParameter(key="gpu_device_ids", kind="numbers"),
    LeafParameter(key="participant_ids", kind="numbers"),
    _int("num_nodes", 1, low=1),
    _int("lora_cache_optimal_adapter_size", 8),
    _int("lora_cache_max_adapter_size", 64),
    _share("lora_cache_gpu_memory_fraction", 0.05),
    _int("lora_cache_host_memory_bytes", 1 << 30),
    LeafParameter(key="lora_prefetch_dir", kind="path", default=""),
    LeafParameter(key="decoding_mode", kind="choice", choices=_DECODERS),
    LeafParameter(key="executor_worker_path", kind="path", default=WORKER_PATH),
    _int("lookahead_window_size"),
    _int("lookahead_ngram_size"),
    _int("lookahead_verification_set_size"),
    LeafParameter(key="medusa_choices", kind="tree"),
    LeafParameter(key="eagle_choices", kind="tree"),
    _share("gpu_weights_percent", 1.0),
    _flag("enable_context_fmha_fp32_acc", default=False),
    _flag("multi_block_mode", default=True),
    _flag("cuda_graph_mode", default=False),
    _int("cuda_graph_cache_size", 0),
    _flag("speculative_decoding_fast_logits", default=False),
    *_needed_keys(),
    LeafParameter(key="recv_poll_period_ms", kind="int", default="0", low=0, in_template=False),
)
