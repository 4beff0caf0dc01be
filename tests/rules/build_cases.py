"""Inputs for the rules about sizes, extra flags, the load test and the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.rules.toys import Case, both, configured, engine, section
from trtspec.spec import SpecFile

__all__ = ["BUILD_CASES"]


def flags(**values: Any) -> Callable[[SpecFile], None]:
    return engine(build={"extra_flags": values})


BUILD_CASES: list[tuple[str, Case]] = [
    (
        "batch-size-buffers",
        Case(both(engine(build={"max_batch_size": 2048}), configured("target", vocab_size=128256)), "warning", "target",
             "2 × 2048 sequences × (8 + 1) tokens × 128 256 rows × 4 bytes = 17.6 GiB"),
    ),
    ("max-num-tokens-large", Case(engine(build={"max_num_tokens": 32768}), "warning", "spec", "32 768")),
    (
        "max-num-tokens-capped",
        Case(engine(build={"max_batch_size": 1}), "note", "spec", "2 048 becomes 512 (max_batch_size 1 × max_seq_len"),
    ),
    (
        "max-num-tokens-lifted",
        Case(engine(build={"max_num_tokens": 64}), "note", "target", "64 becomes 72 (max_batch_size 8 × (max_draft"),
    ),
    (
        "prompts-in-chunks",
        Case(engine(build={"max_num_tokens": 100}, expectations={"prompt_tokens": 250, "output_tokens": 50}), "note",
             "spec", "take 3 passes of max_num_tokens 100; a server without chunked context refuses them"),
    ),
    ("concurrency-over-batch", Case(section("loadtest", concurrency=[1, 16]), "warning", "spec", "8 requests wait")),
    (
        "logits-transfer",
        Case(engine(speculation={"acceptance": "logits"}), "note", "pair", "4 × 320 logits = 5 KiB"),
    ),
    ("sampling-by-tokens", Case(section("loadtest", temperature=0.8), "note", "spec", "temperature 0.8")),
    ("flag-owned", Case(flags(max_seq_len=256), "error", "spec", "build.max_seq_len")),
    ("flag-owned", Case(flags(use_paged_context_fmha="enable"), "error", "spec", "must be on for draft tokens")),
    ("flag-gone", Case(flags(paged_kv_cache="enable"), "error", "spec", "kv_cache_type")),
    ("flag-gone", Case(flags(use_custom_all_reduce="disable"), "error", "spec", "run time")),
    ("flag-unknown", Case(flags(reduce_fusoin="enable"), "error", "spec", "no flag --reduce_fusoin")),
    ("flag-value", Case(flags(reduce_fusion="maybe"), "error", "spec", "'maybe' is not one of")),
    ("flag-without-reuse", Case(flags(use_paged_context_fmha="disable"), "error", "spec", "reuse of KV blocks")),
    ("flag-without-reuse", Case(flags(context_fmha=False), "error", "spec", "context_fmha: disable")),
    ("flag-context-logits", Case(flags(gather_context_logits=True), "error", "target", "max_draft_len (8)")),
    ("flag-streamingllm", Case(flags(streamingllm="enable"), "error", "spec", "aborts")),
    ("flag-profiles", Case(flags(multiple_profiles="enable", opt_num_tokens=64), "error", "spec", "opt_num_tokens 64")),
    ("flag-beams", Case(flags(max_beam_width=4), "error", "spec", "max_beam_width 4")),
    ("flag-reduce-scatter", Case(flags(pp_reduce_scatter="enable"), "error", "draft", "LlamaForCausalLM")),
    ("flag-switched-off", Case(flags(reduce_fusion="enable"), "warning", "target", "with tp 1")),
    ("flag-needs-fp8", Case(flags(gemm_swiglu_plugin="fp8"), "error", "target", "weights are not quantized")),
    ("flag-lora", Case(flags(lora_plugin="auto"), "warning", "spec", "adapters")),
    ("flag-deprecated", Case(flags(gather_generation_logits=True), "error", "spec", "does nothing at build time")),
    ("loadtest-synthetic", Case(section("loadtest", prompts="random"), "warning", "spec", "random prompts")),
    ("loadtest-few-requests", Case(section("loadtest", requests=20), "note", "spec", "p99 needs 100")),
    (
        "loadtest-requests-below-concurrency",
        Case(section("loadtest", requests=2, concurrency=[4]), "warning", "spec", "only the start burst"),
    ),
    ("port-privileged", Case(section("serving", http_port=80), "warning", "spec", "http_port 80")),
    ("server-open", Case(section("serving", host="0.0.0.0"), "note", "spec", "0.0.0.0")),
]  # fmt: skip
