"""Flags of `trtllm-build`.

Read from the command reference of 1.2.0 (NVIDIA/TensorRT-LLM 1.2.0/commands/trtllm-build.html) and, for what it
refuses, from tensorrt_llm/commands/build.py @65f1d153 (before the pydantic BuildConfig of 1.2, #8330). Nothing read
suggests that 1.0 and 1.1 have other flags, except the words of --kv_cache_type.
"""

from __future__ import annotations

from dataclasses import replace

from trtspec.toolchain.flags.model import Flag, FlagTable, parse_flags

__all__ = ["TRTLLM_BUILD"]

_SOURCE = "TensorRT-LLM 1.2.0 command reference; tensorrt_llm/commands/build.py @65f1d153"
_NOTE = "read from 1.2.0; nothing read suggests a difference in 1.0 and 1.1, except for --kv_cache_type"

_COMMAND = """
--checkpoint_dir | text | | | or --model_config; a name ending in .json is a configuration without weights
--model_config | text
--build_config | text | | | replaces the size, logits and speculation flags
--model_cls_file | text
--model_cls_name | text
--output_dir | text | engine_outputs
--max_batch_size | int | 2048 | | scales the decoder's buffers as well
--max_input_len | int | 1024 | | ignored when padding removal and context FMHA are on; clipped to max_seq_len
--max_seq_len --max_decoder_seq_len | int | | | default: positions × rope factor; the builder adds max_draft_len
--max_beam_width | int | 1
--max_num_tokens | int | 8192 | | raised to max_batch_size × (max_draft_len + 1) for a speculative mode
--opt_num_tokens | int | | | default: max_batch_size × max_beam_width; refused with multiple_profiles
--max_encoder_input_len | int | 1024
--max_prompt_embedding_table_size --max_multimodal_len | int | 0
--paged_kv_cache | text | | | deprecated spelling
--input_timing_cache | text
--output_timing_cache | text | model.cache | | relative to the working directory
--profiling_verbosity | text | layer_names_only | layer_names_only detailed none
--strip_plan | presence
--weight_sparsity | presence
--weight_streaming | presence
--fast_build | presence | | | weights go to rankN_managed_weights.safetensors
--workers | int | 1 | | capped at the GPUs that are visible; without one the build fails
--log_level | text | info | internal_error error warning info verbose debug trace
--enable_debug_output | presence
--visualize_network | text
--dry_run | presence | | | skips the engine compile; config.json is still written
--monitor_memory | presence
--logits_dtype | text | | float16 float32
--gather_context_logits | presence | | | refused with max_draft_len > 0
--gather_generation_logits | presence | | | deprecated at build: generation logits are a run-time choice
--gather_all_token_logits | presence | | | both of the above
--lora_dir | texts
--lora_ckpt_source | text | hf | hf nemo
--lora_target_modules | texts | | attn_qkv attn_q attn_k attn_v attn_dense mlp_h_to_4h mlp_4h_to_h mlp_gate
  cross_attn_qkv cross_attn_q cross_attn_k cross_attn_v cross_attn_dense moe_h_to_4h moe_4h_to_h moe_gate
  moe_router mlp_router mlp_gate_up
--max_lora_rank | int | 64
--speculative_decoding_mode | text | | draft_tokens_external lookahead_decoding medusa explicit_draft_tokens eagle
--max_draft_len | int | 0
"""

_PLUGINS = """
--bert_attention_plugin | text | auto | auto float16 float32 bfloat16 int32 disable
--gpt_attention_plugin | text | auto | auto float16 float32 bfloat16 int32 disable
--gemm_plugin | text | | auto float16 float32 bfloat16 int32 fp8 nvfp4 disable
  | nvfp4 for an NVFP4 checkpoint unless disabled
--gemm_swiglu_plugin | text | disable | fp8 disable
--fp8_rowwise_gemm_plugin | text | disable | auto float16 float32 bfloat16 int32 disable
--nccl_plugin | text | auto | auto float16 float32 bfloat16 int32 disable
--lora_plugin | text | disable | auto float16 float32 bfloat16 int32 disable
--dora_plugin | switch | disable
--moe_plugin | text | auto | auto float16 float32 bfloat16 int32 disable
--mamba_conv1d_plugin | text | auto | auto float16 float32 bfloat16 int32 disable
--low_latency_gemm_plugin | text | disable | fp8 disable
--low_latency_gemm_swiglu_plugin | text | disable | fp8 disable
--gemm_allreduce_plugin | text | disable | float16 bfloat16 disable
--context_fmha | switch | enable
--bert_context_fmha_fp32_acc | switch | disable
--remove_input_padding | switch | enable
--norm_quant_fusion | switch | disable
--reduce_fusion | switch | disable | | switched off at tp 1 and outside Llama, Gemma 2 and Medusa
--user_buffer | switch | disable | | needs reduce_fusion; FP8 Llama only
--tokens_per_block | int | 32 | | power of two
--use_paged_context_fmha | switch | enable
--use_fp8_context_fmha | switch | enable
--fuse_fp4_quant | switch | disable
--multiple_profiles | switch | disable
--paged_state | switch | enable
--streamingllm | switch | disable | | enabling it aborts the build
--use_fused_mlp | switch | enable
--pp_reduce_scatter | switch | disable | | Mixtral only
"""


def _cache_type() -> tuple[Flag, ...]:
    """A cache type is the name of an enum, in capitals, before 1.2 and its value since (#8330)."""
    (flag,) = parse_flags("--kv_cache_type | text | | continuous paged disabled | paged unless given")
    older = replace(flag, choices=("CONTINUOUS", "PAGED", "DISABLED"), versions=("1.0", "1.1"))
    return older, replace(flag, versions=("1.2",))


TRTLLM_BUILD = FlagTable(
    "trtllm-build", (*parse_flags(_COMMAND), *_cache_type(), *parse_flags(_PLUGINS)), _SOURCE, _NOTE
)
