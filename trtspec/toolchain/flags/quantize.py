"""Flags of examples/quantization/quantize.py (ModelOpt), and what its formats are called in a checkpoint."""

from __future__ import annotations

from trtspec.toolchain.flags.model import FlagTable, parse_flags

__all__ = ["AWQ_TEXTS", "FORMATS", "FP8_FAMILY", "QUANTIZE"]

_SOURCE = "examples/quantization/quantize.py @059c97c1; tensorrt_llm/quantization/quantize_by_modelopt.py @042c510d"
_NOTE = "read from one commit of the 1.x era; nothing read suggests a difference between 1.0, 1.1 and 1.2"

_FLAGS = """
--model_dir | text
--nemo_ckpt_path | text
--decoder_type | text | gptnext | gptnext llama
--device | text | cuda | cuda cpu
--device_map | text | auto | auto sequential cpu gpu
--calib_dataset | text | cnn_dailymail
--calib_tp_size | int | 1
--calib_pp_size | int | 1
--dtype | text | auto | auto float16 bfloat16 float32
--qformat | text | full_prec | nvfp4 fp8 int8_sq int4_awq w4a8_awq int8_wo int4_wo full_prec
--seed | int | 1234
--tokenizer_max_seq_length | int | 2048
--batch_size | int | 1
--calib_size | int | 512
--calib_max_seq_length | int | 512
--output_dir | text | exported_model
--tp_size | int | 1
--pp_size | int | 1
--cp_size | int | 1
--awq_block_size | int | 128
--kv_cache_dtype | text | | int8 fp8
--quantize_lm_head | presence
--num_medusa_heads | int | 4
--num_medusa_layers | int | 1
--max_draft_len | int | 63
--medusa_hidden_act | text | silu
--medusa_model_dir | text
--quant_medusa_head | presence
--autoq_format | text
--auto_quantize_bits | float
--export_format | text | tensorrt_llm | tensorrt_llm hf
"""

QUANTIZE = FlagTable("quantize.py", parse_flags(_FLAGS), _SOURCE, _NOTE)

# --qformat (the spec's words too) → QuantAlgo in the checkpoint (tensorrt_llm/models/modeling_utils.py); int8_wo and
# int4_wo are also the converters' weight-only quantization
FORMATS: dict[str, str] = {
    "fp8": "FP8",
    "nvfp4": "NVFP4",
    "int4_awq": "W4A16_AWQ",
    "w4a8_awq": "W4A8_AWQ",
    "int8_sq": "W8A8_SQ_PER_CHANNEL",
    "int8_wo": "W8A16",
    "int4_wo": "W4A16",
}
# QuantAlgos over which an FP8 KV cache keeps paged context FMHA (tensorrt_llm/builder.py)
FP8_FAMILY = ("FP8", "W4A8_AWQ", "NVFP4")

AWQ_TEXTS = 32  # the quantizer calibrates AWQ formats with no more texts than this, whatever --calib_size says
