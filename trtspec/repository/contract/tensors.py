"""Inputs and outputs of the C++ `tensorrt_llm` model, in the order of NVIDIA's template.

Read in config.pbtxt of `inflight_batcher_llm/tensorrt_llm`: triton-inference-server/tensorrtllm_backend v0.19.0 and
c2e65b8 (0.20), NVIDIA/TensorRT-LLM 0c8de69a (1.2.0rc8) under triton_backend/all_models. What changed in between:

* 0.20: `min_length` and `random_seed` became `min_tokens` and `seed`;
* 1.0: `return_num_*` and `num_*` came, and the type of `prompt_embedding_table` became the deployment's. Which release
  was the first is not documented; every copy of 1.x that was read has them, so they count as 1.0's. The C++ backend
  declares but never fills `num_*` (the Python variant of the model does).
"""

from __future__ import annotations

from collections.abc import Iterator

from trtspec.repository.contract.rows import ENCODER_FEATURES, LOGITS, PROMPT_TABLE, LeafTensor, Release
from trtspec.repository.tensors import Tensor

__all__ = ["LEAF_INPUTS", "LEAF_OUTPUTS"]

_INT, _FLOAT, _BOOL, _LONG = "TYPE_INT32", "TYPE_FP32", "TYPE_BOOL", "TYPE_UINT64"


def _scalars(
    type_: str, *names: str, optional: bool = True, since: Release | None = None, until: Release | None = None
) -> Iterator[LeafTensor]:
    """One number a request: dims [1], which the backend sees without the dimension."""
    for name in names:
        yield LeafTensor(tensor=Tensor(name, type_, (1,), optional=optional, scalar=True), since=since, until=until)


def _rows(
    type_: str, *names: str, dims: tuple[int, ...] = (-1,), since: Release | None = None, until: Release | None = None
) -> Iterator[LeafTensor]:
    """Optional arrays whose lengths differ between the requests of a batch."""
    for name in names:
        yield LeafTensor(tensor=Tensor(name, type_, dims, optional=True, ragged=True), since=since, until=until)


def _plain(type_: str, *names: str, dims: tuple[int, ...]) -> Iterator[LeafTensor]:
    """Optional arrays that are not ragged."""
    for name in names:
        yield LeafTensor(tensor=Tensor(name, type_, dims, optional=True))


def _outputs(
    type_: str, *names: str, dims: tuple[int, ...] = (1,), since: Release | None = None
) -> Iterator[LeafTensor]:
    for name in names:
        yield LeafTensor(tensor=Tensor(name, type_, dims), since=since)


LEAF_INPUTS: tuple[LeafTensor, ...] = (
    *_rows(_INT, "input_ids"),
    *_rows(ENCODER_FEATURES, "encoder_input_features", dims=(-1, -1)),
    *_scalars(_INT, "encoder_output_lengths"),
    *_scalars(_INT, "input_lengths", "request_output_len", optional=False),
    *_scalars(_INT, "num_return_sequences"),
    *_rows(_INT, "draft_input_ids", "decoder_input_ids"),
    *_scalars(_INT, "decoder_input_lengths"),
    *_rows(LOGITS, "draft_logits", dims=(-1, -1)),
    *_scalars(_FLOAT, "draft_acceptance_threshold"),
    *_scalars(_INT, "end_id", "pad_id"),
    *_rows(_INT, "stop_words_list", "bad_words_list", dims=(2, -1)),
    *_rows(_FLOAT, "embedding_bias"),
    *_scalars(_INT, "beam_width"),
    *_scalars(_FLOAT, "temperature"),
    *_scalars(_INT, "runtime_top_k"),
    *_scalars(_FLOAT, "runtime_top_p", "runtime_top_p_min", "runtime_top_p_decay"),
    *_scalars(_INT, "runtime_top_p_reset_ids"),
    *_scalars(_FLOAT, "len_penalty"),
    *_scalars(_BOOL, "early_stopping"),
    *_scalars(_FLOAT, "repetition_penalty"),
    *_scalars(_INT, "min_length", until=(0, 19)),
    *_scalars(_INT, "min_tokens", since=(0, 20)),
    *_scalars(_FLOAT, "beam_search_diversity_rate", "presence_penalty", "frequency_penalty"),
    *_scalars(_LONG, "random_seed", until=(0, 19)),
    *_scalars(_LONG, "seed", since=(0, 20)),
    *_scalars(_BOOL, "return_log_probs", "return_context_logits", "return_generation_logits", "return_perf_metrics"),
    *_scalars(_BOOL, "return_num_input_tokens", "return_num_output_tokens", since=(1, 0)),
    *_scalars(_BOOL, "exclude_input_in_output", "stop", "streaming"),
    *_rows("TYPE_FP16", "prompt_embedding_table", dims=(-1, -1), until=(0, 21)),
    *_rows(PROMPT_TABLE, "prompt_embedding_table", dims=(-1, -1), since=(1, 0)),
    *_rows(_LONG, "prompt_table_extra_ids"),
    *_scalars(_INT, "prompt_vocab_size"),
    *_rows(_BOOL, "cross_attention_mask", dims=(-1, -1)),
    *_plain(_FLOAT, "mrope_rotary_cos_sin", dims=(-1,)),
    *_plain("TYPE_INT64", "mrope_position_deltas", dims=(1,)),
    *_scalars(_LONG, "lora_task_id"),
    *_rows("TYPE_FP16", "lora_weights", dims=(-1, -1)),
    *_rows(_INT, "lora_config", dims=(-1, 3)),
    *_rows("TYPE_UINT8", "context_phase_params"),
    *_rows(_BOOL, "skip_cross_attn_blocks", dims=(1,)),
    *_rows(
        _INT, "retention_token_range_starts", "retention_token_range_ends", "retention_token_range_priorities",
        "retention_token_range_durations_ms",
    ),
    *_rows(_INT, "retention_decode_priority", "retention_decode_duration_ms", dims=(1,)),
    *_rows("TYPE_STRING", "guided_decoding_guide_type", "guided_decoding_guide", dims=(1,)),
    *_rows(_INT, "lookahead_window_size", "lookahead_ngram_size", "lookahead_verification_set_size", dims=(1,)),
)  # fmt: skip

LEAF_OUTPUTS: tuple[LeafTensor, ...] = (
    *_outputs(_INT, "output_ids", dims=(-1, -1)),
    *_outputs(_INT, "sequence_length", dims=(-1,)),
    *_outputs(_FLOAT, "cum_log_probs", dims=(-1,)),
    *_outputs(_FLOAT, "output_log_probs", dims=(-1, -1)),
    *_outputs(LOGITS, "context_logits", dims=(-1, -1)),
    *_outputs(LOGITS, "generation_logits", dims=(-1, -1, -1)),
    *_outputs(_INT, "batch_index", "sequence_index"),
    *_outputs("TYPE_UINT8", "context_phase_params", dims=(-1,)),
    *_outputs(_INT, "kv_cache_alloc_new_blocks", "kv_cache_reused_blocks", "kv_cache_alloc_total_blocks"),
    *_outputs("TYPE_INT64", "arrival_time_ns", "first_scheduled_time_ns", "first_token_time_ns", "last_token_time_ns"),
    *_outputs(_FLOAT, "acceptance_rate"),
    *_outputs(_INT, "total_accepted_draft_tokens", "total_draft_tokens"),
    *_outputs(_INT, "num_input_tokens", "num_output_tokens", since=(1, 0)),
)
