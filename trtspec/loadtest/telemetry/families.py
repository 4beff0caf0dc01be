"""Which of a server's metrics say something about a load test, by the server that exports them.

Names are those of Triton 24.10 to 26.07 (docs: user_guide/metrics.md of triton-inference-server/server; TensorRT-LLM's
`nv_trt_llm_*` in tensorrtllm_backend's README), of vLLM (docs: usage/metrics.md; older releases call the KV gauge
`gpu_cache_usage_perc`) and of SGLang (docs: references/production_metrics.md). Families that a server lacks are no
error: they are simply not among those present.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["COUNTERS", "GAUGES", "PREFIXES", "Family"]

# everything that begins so is kept in snapshots; histograms' buckets are not
PREFIXES = ("nv_", "trtspec_", "vllm:", "sglang:", "trtllm_")


@dataclass(frozen=True)
class Family:
    """A metric under one of its names, with the labels that single out the value that is meant."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    scale: float = 1.0  # to the unit of the figure


# figure → the names it goes by; gauges are sampled while an arm is under load
GAUGES: dict[str, tuple[Family, ...]] = {
    "kv_cache_usage": (
        Family("nv_trt_llm_kv_cache_block_metrics", {"kv_cache_block_type": "fraction"}),
        Family("trtspec_leaf_kv_usage"),
        Family("vllm:kv_cache_usage_perc"),
        Family("vllm:gpu_cache_usage_perc"),
        Family("sglang:token_usage"),
    ),
    "waiting_requests": (
        Family("nv_trt_llm_request_metrics", {"request_type": "waiting"}),
        Family("trtspec_leaf_requests", {"state": "waiting"}),
        Family("vllm:num_requests_waiting"),
        Family("sglang:num_queue_reqs"),
        Family("nv_inference_pending_request_count"),
    ),
    "running_requests": (
        Family("trtspec_running_requests"),
        Family("nv_trt_llm_request_metrics", {"request_type": "active"}),
        Family("vllm:num_requests_running"),
        Family("sglang:num_running_reqs"),
    ),
    "draft_length": (Family("trtspec_draft_length"),),
}

# figure → (total seconds, how many): the growth of one over the growth of the other is a mean
COUNTERS: dict[str, tuple[tuple[Family, Family], ...]] = {
    "queue_time": (
        (Family("nv_inference_queue_duration_us", scale=1e-6), Family("nv_inference_request_success")),
        (Family("vllm:request_queue_time_seconds_sum"), Family("vllm:request_queue_time_seconds_count")),
        (Family("sglang:queue_time_seconds_sum"), Family("sglang:queue_time_seconds_count")),
    ),
    "server_request_time": (
        (Family("nv_inference_request_duration_us", scale=1e-6), Family("nv_inference_request_success")),
        (Family("vllm:e2e_request_latency_seconds_sum"), Family("vllm:e2e_request_latency_seconds_count")),
        (Family("sglang:e2e_request_latency_seconds_sum"), Family("sglang:e2e_request_latency_seconds_count")),
    ),
    "server_time_to_first_token": (
        (Family("trtspec_time_to_first_token_seconds_sum"), Family("trtspec_time_to_first_token_seconds_count")),
        (Family("vllm:time_to_first_token_seconds_sum"), Family("vllm:time_to_first_token_seconds_count")),
        (Family("sglang:time_to_first_token_seconds_sum"), Family("sglang:time_to_first_token_seconds_count")),
    ),
    "round_time": ((Family("trtspec_round_seconds_sum"), Family("trtspec_round_seconds_count")),),
    "round_draft_time": (
        (Family("trtspec_round_part_seconds_total", {"part": "draft"}), Family("trtspec_round_seconds_count")),
    ),
    "round_target_time": (
        (Family("trtspec_round_part_seconds_total", {"part": "target"}), Family("trtspec_round_seconds_count")),
    ),
    "round_overhead_time": (
        (Family("trtspec_round_part_seconds_total", {"part": "overhead"}), Family("trtspec_round_seconds_count")),
    ),
}
