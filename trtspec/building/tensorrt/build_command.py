"""The `trtllm-build` command of a role's engine, every size explicit.

Not given, on purpose: --kv_cache_type, whose words differ between releases (an enum's name before 1.2, its value since)
and which resolves to a paged cache by itself; --opt_num_tokens, which the builder derives and which would be one more
difference between baseline and target.
"""

from __future__ import annotations

from trtspec.building.tensorrt.extra_flags import extra_argv
from trtspec.building.tensorrt.request import EngineRequest
from trtspec.building.tensorrt.tools import Tools

__all__ = ["build_argv"]

_MODE = "draft_tokens_external"
# relative: each build runs in a working directory of its own, and the file does not belong into the engine's folder
_TIMING_CACHE = "model.cache"


def build_argv(request: EngineRequest, checkpoint: str, output: str, tools: Tools) -> tuple[str, ...]:
    """`trtllm-build` for one engine: folders, sizes, speculation, attention, the rest, then the spec's extra flags.

    Baseline and target differ in the two flags of speculation alone. An extra flag takes the place of a default here
    (--gemm_plugin).
    """
    extra = extra_argv(request.build.extra_flags, request.minor)
    gemm = ("--gemm_plugin", "nvfp4" if request.quant_algo == "NVFP4" else "auto")
    return (
        tools.trtllm_build,
        *("--checkpoint_dir", checkpoint),
        *("--output_dir", output),
        *_sizes(request),
        *_speculation(request),
        *_attention(request),
        *(() if "--gemm_plugin" in extra else gemm),
        *("--logits_dtype", request.logits_dtype),
        *("--workers", str(request.workers)),
        *("--output_timing_cache", _TIMING_CACHE),
        *("--log_level", "info"),
        *(word for argv in extra.values() for word in argv),
    )


def _sizes(request: EngineRequest) -> tuple[str, ...]:
    sizes = request.sizes
    return (
        *("--max_batch_size", str(sizes.max_batch_size)),
        *("--max_input_len", str(sizes.max_input_len)),
        *("--max_seq_len", str(sizes.max_seq_len)),
        *("--max_num_tokens", str(sizes.max_num_tokens)),
        *("--max_beam_width", str(sizes.max_beam_width)),
    )


def _speculation(request: EngineRequest) -> tuple[str, ...]:
    if not request.sizes.speculative:
        return ()
    return ("--speculative_decoding_mode", _MODE, "--max_draft_len", str(request.sizes.max_draft_len))


def _attention(request: EngineRequest) -> tuple[str, ...]:
    """Paged context FMHA reuses KV blocks and takes draft tokens; over an FP8 KV cache it needs its FP8 form."""
    fp8 = ("--use_fp8_context_fmha", "enable") if request.kv_cache_dtype == "FP8" else ()
    return (
        *("--remove_input_padding", "enable"),
        *("--context_fmha", "enable"),
        *("--use_paged_context_fmha", "enable"),
        *fp8,
        *("--tokens_per_block", str(request.sizes.tokens_per_block)),
    )
