"""Flags of the checkpoint converters of the other families, put together from blocks that they share.

Read from examples/models/{core,contrib}/*/convert_checkpoint.py of NVIDIA/TensorRT-LLM at the commits below.
"""

from __future__ import annotations

from trtspec.toolchain.flags.model import FlagTable, parse_flags

__all__ = ["MORE_CONVERTERS"]

_NOTE = "read from one commit; nothing read suggests a difference between 1.0, 1.1 and 1.2"

# every one of them has these
_COMMON = """
--model_dir | text
--output_dir | text | tllm_checkpoint
--tp_size | int | 1
--pp_size | int | 1
--workers | int | 1
"""
_AUTO = "--dtype | text | auto | auto float16 bfloat16 float32"
_NO_AUTO = "--dtype | text | float16 | float32 bfloat16 float16"
_WEIGHT_ONLY = """
--use_weight_only | presence
--weight_only_precision | text | int8 | int8 int4
"""
_WEIGHT_ONLY_GPTQ = """
--use_weight_only | presence
--weight_only_precision | text | int8 | int8 int4 int4_gptq
--quant_ckpt_path | text
"""
_EMBEDDING = """
--use_parallel_embedding | presence
--embedding_sharding_dim | int | 0 | 0 1
"""
_SMOOTH = """
--smoothquant -sq | float
--per_channel | presence
--per_token | presence
"""
_EXPERT_RANKS = """
--moe_tp_size | int | -1
--moe_ep_size | int | -1
"""
_EXPERTS = """
--moe_num_experts | int | 0
--moe_top_k | int | 0
--moe_renorm_mode | int
"""
_LOG = "--log_level | text | info"
_CPU = "--load_model_on_cpu | presence"
_NO_PLUGIN = "--disable_weight_only_quant_plugin | presence"
_CONFIG_ONLY = "--save_config_only | presence"
_LOGITS = "--logits_dtype | text | float32 | float16 float32"
_INT8_KV = "--int8_kv_cache | presence"
_CACHE_DIR = "--dataset_cache_dir | text"


def _calibration(dataset: str) -> str:
    return f"--calib_dataset | text | {dataset}"


_GPT = """
--nemo_ckpt_path | text
--gpt_variant | text | | gpt2 santacoder starcoder starcoder2 persimmon kosmos-2 nemotron | inferred from the model
--nemo_rename_key | texts
"""
_CHATGLM = """
--chatglm_version | text | | | inferred from the model
--cp_size | int | 1
--device | text | cuda | cuda cpu
"""
_DBRX = """
--rotary_base | float | 10000.0
--rotary_scaling | texts
--vocab_size | int | 32000
--n_positions | int | 2048
--n_layer | int | 32
--n_head | int | 32
--n_kv_head | int
--n_embd | int | 4096
--inter_size | int | 11008
--max_seq_len | int | 4096
--clip_qkv | int
--hidden_act | text | gelu
--dense_context_fmha | presence
--use_prompt_tuning | presence
--per_channel | presence
"""
_GPTJ = """
--vocab_size | int | 50400
--n_positions | int | 2048
--n_layer | int | 28
--n_head | int | 16
--n_embd | int | 4096
--norm_eps | float | 1e-05
--rotary_dim | int | 64
"""
_MODEL_VERSION = "--model_version | text | v1_13b | v1_7b v1_13b v2_7b v2_13b"
_GROUP = "--group_size | int | 128"


def _table(place: str, commit: str, *blocks: str) -> FlagTable:
    source = f"examples/models/{place}/convert_checkpoint.py @{commit}"
    return FlagTable("convert_checkpoint.py", parse_flags("\n".join([_COMMON, *blocks])), source, _NOTE)


MORE_CONVERTERS: dict[str, FlagTable] = {
    "phi": _table("core/phi", "10c1d594", _AUTO, _WEIGHT_ONLY, _EXPERT_RANKS),
    "commandr": _table("core/commandr", "310decb9", _AUTO, _WEIGHT_ONLY, _NO_PLUGIN, _CPU, _EMBEDDING, _LOG),
    "gpt": _table(
        "core/gpt", "7edbcccb",
        _AUTO, _WEIGHT_ONLY, _SMOOTH, _INT8_KV, _EMBEDDING, _CPU, _LOG, _CACHE_DIR, _calibration("lambada"), _GPT,
    ),
    "internlm2": _table("core/internlm2", "368f8f2a", _NO_AUTO, _WEIGHT_ONLY, _EMBEDDING, _LOG),
    "nemotron_nas": _table(
        "core/nemotron_nas", "25b6cdd8",
        _AUTO, _EMBEDDING, _CPU, _CONFIG_ONLY, "--load_by_shard | presence", "--trust_remote_code | presence",
    ),
    "chatglm": _table(
        "core/glm-4-9b", "10c1d594",
        _AUTO, _WEIGHT_ONLY, _SMOOTH, _INT8_KV, _EMBEDDING, _LOGITS, _CPU, _LOG, _calibration("cnn_dailymail"),
        _CHATGLM,
    ),
    "falcon": _table(
        "contrib/falcon", "323e8460", _AUTO, _WEIGHT_ONLY, _EMBEDDING, _LOG, "--load_by_shard | presence"
    ),
    "baichuan": _table(
        "contrib/baichuan", "25b6cdd8",
        _AUTO, _WEIGHT_ONLY_GPTQ, _SMOOTH, _INT8_KV, _LOGITS, _GROUP, _MODEL_VERSION,
        _calibration("ccdv/cnn_dailymail"),
    ),
    "gptj": _table("contrib/gptj", "25b6cdd8", _AUTO, _WEIGHT_ONLY, _GPTJ),
    "gptneox": _table("contrib/gptneox", "2a9abd95", _NO_AUTO, _WEIGHT_ONLY_GPTQ, _EMBEDDING),
    "opt": _table(
        "contrib/opt", "31a9cd42", _NO_AUTO, _WEIGHT_ONLY, _EMBEDDING, "--model_type | text | opt | opt blip2"
    ),
    "bloom": _table(
        "contrib/bloom", "21c1b298",
        _NO_AUTO, _WEIGHT_ONLY, _SMOOTH, _INT8_KV, _EMBEDDING, _LOG, _calibration("lambada"),
    ),
    "mpt": _table(
        "contrib/mpt", "368f8f2a",
        _NO_AUTO, _WEIGHT_ONLY, _SMOOTH, _EMBEDDING, _LOGITS, _CACHE_DIR, _calibration("ccdv/cnn_dailymail"),
        "--calibrate_kv_cache -kv | presence",
    ),
    "dbrx": _table(
        "contrib/dbrx", "65b31db1",
        _NO_AUTO, _WEIGHT_ONLY, _NO_PLUGIN, _INT8_KV, _EMBEDDING, _LOGITS, _EXPERTS, _EXPERT_RANKS, _CACHE_DIR,
        _calibration("ccdv/cnn_dailymail"), _DBRX,
    ),
    "deepseek_v1": _table(
        "contrib/deepseek_v1", "10c1d594", _AUTO, _EMBEDDING, _EXPERTS, _EXPERT_RANKS, _CONFIG_ONLY, _NO_PLUGIN
    ),
    "deepseek_v2": _table(
        "contrib/deepseek_v2", "5c0c175b",
        _NO_AUTO, _EMBEDDING, _EXPERTS, _EXPERT_RANKS, _CONFIG_ONLY, _NO_PLUGIN, _CPU,
        "--use_preloading | presence", "--use_safetensors_loading | presence",
    ),
}  # fmt: skip
