# baseline
python3 /app/examples/models/core/qwen/convert_checkpoint.py --model_dir MODELS/target --output_dir CHECKPOINTS/target --dtype bfloat16 --tp_size 4 --pp_size 1
#   config.json rank0.safetensors rank1.safetensors rank2.safetensors rank3.safetensors
trtllm-build --checkpoint_dir CHECKPOINTS/target --output_dir ENGINES/baseline --max_batch_size 16 --max_input_len 8191 --max_seq_len 8192 --max_num_tokens 2048 --max_beam_width 1 --remove_input_padding enable --context_fmha enable --use_paged_context_fmha enable --tokens_per_block 32 --gemm_plugin auto --logits_dtype float32 --workers 4 --output_timing_cache model.cache --log_level info
#   config.json rank0.engine rank1.engine rank2.engine rank3.engine
# target
python3 /app/examples/models/core/qwen/convert_checkpoint.py --model_dir MODELS/target --output_dir CHECKPOINTS/target --dtype bfloat16 --tp_size 4 --pp_size 1
#   config.json rank0.safetensors rank1.safetensors rank2.safetensors rank3.safetensors
trtllm-build --checkpoint_dir CHECKPOINTS/target --output_dir ENGINES/target --max_batch_size 16 --max_input_len 8191 --max_seq_len 8192 --max_num_tokens 2048 --max_beam_width 1 --speculative_decoding_mode draft_tokens_external --max_draft_len 8 --remove_input_padding enable --context_fmha enable --use_paged_context_fmha enable --tokens_per_block 32 --gemm_plugin auto --logits_dtype float32 --workers 4 --output_timing_cache model.cache --log_level info
#   config.json rank0.engine rank1.engine rank2.engine rank3.engine
# draft
python3 /app/examples/models/core/qwen/convert_checkpoint.py --model_dir MODELS/draft --output_dir CHECKPOINTS/draft --dtype bfloat16 --tp_size 1 --pp_size 1 --use_weight_only --weight_only_precision int8
#   config.json rank0.safetensors
trtllm-build --checkpoint_dir CHECKPOINTS/draft --output_dir ENGINES/draft --max_batch_size 16 --max_input_len 8191 --max_seq_len 8192 --max_num_tokens 2048 --max_beam_width 1 --remove_input_padding enable --context_fmha enable --use_paged_context_fmha enable --tokens_per_block 32 --gemm_plugin auto --logits_dtype float32 --workers 1 --output_timing_cache model.cache --log_level info
#   config.json rank0.engine
