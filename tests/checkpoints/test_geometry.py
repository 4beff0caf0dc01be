"""Widths, windows and experts as public models state them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checkpoints.real_configs import config_of
from trtspec.checkpoints.config import ModelConfig, parse_config


def known(name: str, **more: Any) -> ModelConfig:
    return parse_config({**config_of(name), **more}, "config.json")


FACTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Llama-3.1-8B", {"head_dim": 128, "intermediate": 14336, "kv_heads": 8, "experts": None, "gated_mlp": True}),
    ("Llama-3.2-1B", {"head_dim": 64, "sliding_window": None, "windowed_layers": None, "dense_layers": None}),
    ("Mistral-7B-v0.1", {"sliding_window": 4096, "windowed_layers": 32}),
    ("Mixtral-8x7B", {"sliding_window": None, "experts": 8, "experts_per_token": 2, "moe_intermediate": 14336,
                      "dense_layers": 0, "shared_intermediate": None}),
    ("Qwen2.5-0.5B", {"sliding_window": None, "windowed_layers": None, "head_dim": 64, "intermediate": 4864}),
    ("Qwen2.5-72B", {"sliding_window": None, "windowed_layers": None}),
    ("Qwen3-30B-A3B", {"experts": 128, "experts_per_token": 8, "moe_intermediate": 768, "dense_layers": 0}),
    ("Qwen1.5-MoE-A2.7B", {"shared_intermediate": 5632, "moe_intermediate": 1408, "experts": 60, "dense_layers": 0}),
    ("Gemma-2-2b", {"head_dim": 256, "sliding_window": 4096, "windowed_layers": 13, "intermediate": 9216}),
    ("Gemma-2-27b", {"head_dim": 128, "windowed_layers": 23}),
    ("Gemma-3-1b", {"sliding_window": 512, "windowed_layers": 22, "rope_theta": 1e6, "rope_local_theta": 1e4}),
    ("Phi-3-mini-4k", {"sliding_window": 2047, "windowed_layers": 32}),
    ("Phi-3.5-MoE", {"experts": 16, "moe_intermediate": 6400, "dense_layers": 0}),
    ("falcon-7b", {"kv_heads": 1, "intermediate": 4 * 4544, "head_dim": 64, "gated_mlp": False}),
    ("falcon-40b", {"kv_heads": 8, "intermediate": 4 * 8192, "head_dim": 64}),
    ("gpt2", {"intermediate": 3072, "head_dim": 64, "kv_heads": 12, "gated_mlp": False}),
    ("gpt-j-6b", {"intermediate": 16384, "head_dim": 256, "partial_rotary_factor": 0.25}),
    ("gpt-neox-20b", {"head_dim": 96, "partial_rotary_factor": 0.25, "rope_theta": 1e4}),
    ("bloom-560m", {"intermediate": 4096, "layers": 24}),
    ("mpt-7b", {"intermediate": 16384, "kv_heads": 32, "max_positions": 2048}),
    ("starcoder", {"kv_heads": 1, "head_dim": 128, "intermediate": 24576}),
    ("starcoder2-3b", {"kv_heads": 2, "sliding_window": 4096, "windowed_layers": 30, "gated_mlp": False}),
    ("dbrx", {"kv_heads": 8, "experts": 16, "experts_per_token": 4, "moe_intermediate": 10752, "rope_theta": 5e5}),
    ("DeepSeek-V2", {"kv_lora_rank": 512, "q_lora_rank": 1536, "head_dim": 192, "v_head_dim": 128, "dense_layers": 1,
                     "shared_intermediate": 3072, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128}),
    ("DeepSeek-V2-Lite", {"q_lora_rank": None, "experts": 64, "dense_layers": 1}),
    ("chatglm3-6b", {"kv_heads": 2, "head_dim": 128, "intermediate": 13696, "vocab_size": 65024, "layers": 28}),
    ("Qwen-7B", {"intermediate": 11008, "head_dim": 128, "max_positions": 8192}),
    ("grok-1", {"experts": 8, "experts_per_token": 2, "moe_intermediate": 32768}),
    ("snowflake-arctic", {"experts": 128, "dense_layers": 0}),
    ("Minitron-4B", {"head_dim": 128, "gated_mlp": False}),
)  # fmt: skip


@pytest.mark.parametrize(("name", "facts"), FACTS, ids=[name for name, _ in FACTS])
def test_what_a_public_config_says(name: str, facts: dict[str, Any]) -> None:
    config = known(name)
    assert {key: getattr(config, key) for key in facts} == facts


@pytest.mark.parametrize(
    ("more", "windowed"),
    [
        ({"use_sliding_window": True, "max_window_layers": 20}, 4),
        ({"use_sliding_window": True, "max_window_layers": 99}, 0),
        ({"layer_types": ["full_attention"] * 20 + ["sliding_attention"] * 4, "use_sliding_window": True}, 4),
        ({"use_sliding_window": False}, None),
    ],
)
def test_qwen_windows_only_the_layers_behind_the_first(more: dict[str, Any], windowed: int | None) -> None:
    config = known("Qwen2.5-0.5B", **more)
    assert config.windowed_layers == windowed
    assert config.sliding_window == (None if windowed is None else 32768)


@pytest.mark.parametrize("window", [None, 0, -1])
def test_a_window_that_is_switched_off(window: int | None) -> None:
    assert known("Mistral-7B-v0.1", sliding_window=window).sliding_window is None


def test_experts_in_every_second_layer_and_listed_dense_layers() -> None:
    assert known("Qwen1.5-MoE-A2.7B", decoder_sparse_step=2).dense_layers == 12
    assert known("Qwen3-30B-A3B", mlp_only_layers=[0, 5]).dense_layers == 2
    assert known("DeepSeek-V2", first_k_dense_replace=3).dense_layers == 3


def test_kv_heads_of_each_layer() -> None:
    older = {**config_of("Llama-2-7b"), "architectures": ["DeciLMForCausalLM"], "num_hidden_layers": 3,
             "num_key_value_heads": None, "num_key_value_heads_per_layer": [4, 2, 4]}  # fmt: skip
    config = parse_config(older, "config.json")
    assert config.layer_kv_heads == (4, 2, 4)
    assert config.kv_heads == 4


def test_head_widths_that_the_class_fills_in() -> None:
    gemma = config_of("Gemma-2-2b")
    assert parse_config({k: v for k, v in gemma.items() if k != "head_dim"}, "config.json").head_dim == 256


def test_the_language_part_is_the_one_that_counts() -> None:
    inner = config_of("Gemma-3-1b")
    outer = {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "text_config": inner}
    config = parse_config(outer, "config.json")
    assert (config.head_dim, config.windowed_layers, config.gated_mlp) == (256, 22, True)


def test_nothing_is_invented() -> None:
    config = parse_config({}, "config.json")
    for name in ("head_dim", "intermediate", "sliding_window", "experts", "kv_lora_rank", "rope_theta", "quant"):
        assert getattr(config, name) is None
    assert config.gated_mlp is None
