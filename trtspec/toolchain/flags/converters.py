"""Flags of the checkpoint converters for Llama, Qwen and Gemma, in full, and the table of all families.

Read from examples/models/core/*/convert_checkpoint.py of NVIDIA/TensorRT-LLM: llama @368f8f2a and gemma @310decb9 (late
ones, of the 1.3 candidates), qwen @0df9aaf3 (older). Expected to be those of 1.0 to 1.2; not compared flag by flag.
"""

from __future__ import annotations

from trtspec.toolchain.flags.model import FlagTable, parse_flags
from trtspec.toolchain.flags.more_converters import MORE_CONVERTERS

__all__ = ["CONVERTERS"]

_NOTE = "read from one commit; nothing read suggests a difference between 1.0, 1.1 and 1.2"

_LLAMA = """
--model_dir | text
--meta_ckpt_dir | text
--output_dir | text | tllm_checkpoint
--dtype | text | auto | auto float16 bfloat16 float32
--tp_size | int | 1
--pp_size | int | 1
--cp_size | int | 1
--moe_tp_size | int | -1
--moe_ep_size | int | -1
--workers | int | 1
--load_by_shard | presence
--load_model_on_cpu | presence
--use_parallel_embedding | presence
--embedding_sharding_dim | int | 0 | 0 1
--use_weight_only | presence
--weight_only_precision | text | int8 | int8 int4 int8_gptq int4_gptq int4_awq
--disable_weight_only_quant_plugin | presence
--smoothquant -sq | float
--per_channel | presence
--per_token | presence
--per_group | presence
--group_size | int | 128
--use_qserve | presence
--use_fp8 | presence
--use_nvfp4 | presence
--use_fp8_rowwise | presence
--use_meta_fp8_rowwise_recipe | presence
--int8_kv_cache | presence
--fp8_kv_cache | presence
--quant_ckpt_path | text
--calib_dataset | text | ccdv/cnn_dailymail
--calib_size | int | 512
--calib_max_seq_length | int | 512
--remove_duplicated_kv_heads | presence
--save_config_only | presence
--log_level | text | info
--vocab_size | int | 32000
--n_positions | int | 2048
--n_layer | int | 32
--n_head | int | 32
--n_kv_head | int
--n_embd | int | 4096
--inter_size | int | 11008
--multiple_of | int
--ffn_dim_multiplier | float
--rms_norm_eps | float | 1e-06
--hidden_act | text | silu
--rotary_base | float | 10000.0
--moe_num_experts | int | 0
--moe_top_k | int | 0
--moe_renorm_mode | int
"""

_QWEN = """
--model_dir | text
--output_dir | text | tllm_checkpoint
--dtype | text | auto | auto float16 bfloat16 float32
--tp_size | int | 1
--pp_size | int | 1
--cp_size | int | 1
--moe_tp_size | int | -1
--moe_ep_size | int | -1
--workers | int | 1
--load_model_on_cpu | presence
--use_parallel_embedding | presence
--embedding_sharding_dim | int | 0 | 0 1
--use_weight_only | presence
--weight_only_precision | text | int8 | int8 int4 int4_gptq int8_gptq
--disable_weight_only_quant_plugin | presence
--smoothquant -sq | float
--per_channel | presence
--per_token | presence
--int8_kv_cache | presence
--per_group | presence
--group_size | int | 128
--calib_dataset | text | ccdv/cnn_dailymail
"""

_GEMMA = """
--ckpt-type | text | | jax keras torch hf
--model-dir --model_dir | text
--output-model-dir --output_dir | text
--world-size | int | 1
--dtype | text | auto | auto float16 bfloat16 float32
--use_weight_only | presence
--weight_only_precision --use-weight-only-with-precision | text | | int8 int4 w4a8_awq w4a16_awq
--use-int8-weight-only-embedding | presence
--enable_fp8 | presence
--fp8_kv_cache | presence
--quant_ckpt_path | text
--calib_dataset | text | ccdv/cnn_dailymail
--use_smooth_quant | presence
--int8_kv_cache --calibrate_kv_cache -kv | presence
--per_channel | presence
--per_token | presence
--smoothquant --use_smooth_quant_plugin -sq | float
--tokenizer_dir | text
--load_model_on_cpu | presence
"""


def _table(family: str, text: str, commit: str) -> FlagTable:
    source = f"examples/models/core/{family}/convert_checkpoint.py @{commit}"
    return FlagTable("convert_checkpoint.py", parse_flags(text), source, _NOTE)


# family → the flags of its convert_checkpoint.py
CONVERTERS: dict[str, FlagTable] = {
    "llama": _table("llama", _LLAMA, "368f8f2a"),
    "qwen": _table("qwen", _QWEN, "0df9aaf3"),
    "gemma": _table("gemma", _GEMMA, "310decb9"),
    **MORE_CONVERTERS,
}
