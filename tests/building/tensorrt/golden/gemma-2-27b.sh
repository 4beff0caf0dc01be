# baseline
python3 /app/examples/models/core/gemma/convert_checkpoint.py --ckpt-type hf --model-dir MODELS/target --output-model-dir CHECKPOINTS/target --world-size 2 --dtype bfloat16
#   config.json rank0.safetensors rank1.safetensors
trtllm-build --checkpoint_dir CHECKPOINTS/target --output_dir ENGINES/baseline --max_batch_size 4 --max_input_len 8191 --max_seq_len 8192 --max_num_tokens 2048 --max_beam_width 1 --remove_input_padding enable --context_fmha enable --use_paged_context_fmha enable --tokens_per_block 32 --gemm_plugin auto --logits_dtype float32 --workers 2 --output_timing_cache model.cache --log_level info
#   config.json rank0.engine rank1.engine
# target
python3 /app/examples/models/core/gemma/convert_checkpoint.py --ckpt-type hf --model-dir MODELS/target --output-model-dir CHECKPOINTS/target --world-size 2 --dtype bfloat16
#   config.json rank0.safetensors rank1.safetensors
trtllm-build --checkpoint_dir CHECKPOINTS/target --output_dir ENGINES/target --max_batch_size 4 --max_input_len 8191 --max_seq_len 8192 --max_num_tokens 2048 --max_beam_width 1 --speculative_decoding_mode draft_tokens_external --max_draft_len 4 --remove_input_padding enable --context_fmha enable --use_paged_context_fmha enable --tokens_per_block 32 --gemm_plugin auto --logits_dtype float32 --workers 2 --output_timing_cache model.cache --log_level info
#   config.json rank0.engine rank1.engine
# draft
python3 /app/examples/models/core/gemma/convert_checkpoint.py --ckpt-type hf --model-dir MODELS/draft --output-model-dir CHECKPOINTS/draft --world-size 1 --dtype bfloat16
#   config.json rank0.safetensors
trtllm-build --checkpoint_dir CHECKPOINTS/draft --output_dir ENGINES/draft --max_batch_size 4 --max_input_len 8191 --max_seq_len 8192 --max_num_tokens 2048 --max_beam_width 1 --remove_input_padding enable --context_fmha enable --use_paged_context_fmha enable --tokens_per_block 32 --gemm_plugin auto --logits_dtype float32 --workers 1 --output_timing_cache model.cache --log_level info
#   config.json rank0.engine
