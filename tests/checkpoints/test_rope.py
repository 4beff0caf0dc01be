"""Rotary facts: bases, shares and scalings under the keys of every generation."""

from __future__ import annotations

from typing import Any

import pytest

from trtspec.checkpoints.config import ModelConfig, parse_config


def parsed(**data: Any) -> ModelConfig:
    return parse_config(data, "config.json")


@pytest.mark.parametrize(
    ("data", "theta"),
    [
        ({"rope_theta": 500000.0}, 5e5),
        ({"rotary_emb_base": 10000}, 1e4),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1000000}}, 1e6),
        ({"attn_config": {"rope_theta": 500000}}, 5e5),
        ({"rope_theta": "large"}, None),
        ({"rope_theta": True}, None),
        ({}, None),
    ],
)
def test_the_base_frequency(data: dict[str, Any], theta: float | None) -> None:
    assert parsed(**data).rope_theta == theta


def test_one_base_for_each_kind_of_layer() -> None:
    nested = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000},
    }
    config = parsed(rope_parameters=nested)
    assert (config.rope_theta, config.rope_local_theta) == (1e6, 1e4)
    [scaling] = config.rope
    assert (scaling.kind, scaling.fields["factor"]) == ("linear", 8.0)


@pytest.mark.parametrize(
    ("data", "share"),
    [
        ({"partial_rotary_factor": 0.5}, 0.5),
        ({"rotary_pct": 0.25}, 0.25),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.75}}, 0.75),
        ({"rotary_dim": 64, "n_embd": 4096, "n_head": 16}, 0.25),
        ({}, None),
    ],
)
def test_the_share_of_a_head_that_turns(data: dict[str, Any], share: float | None) -> None:
    assert parsed(**data).partial_rotary_factor == share


@pytest.mark.parametrize("kind", ["linear", "dynamic", "yarn", "longrope", "llama3", "mrope", "proportional", "new"])
@pytest.mark.parametrize("key", ["rope_type", "type"])
def test_every_kind_is_read_under_either_key(kind: str, key: str) -> None:
    [scaling] = parsed(rope_scaling={key: kind, "factor": 2.0}).rope
    assert (scaling.kind, scaling.fields) == (kind, {"factor": 2.0})


def test_phi3_keeps_a_field_beside_the_section() -> None:
    section = {"type": "longrope", "short_factor": [1.0], "long_factor": [2.0]}
    [scaling] = parsed(rope_scaling=section, original_max_position_embeddings=4096).rope
    assert scaling.fields["original_max_position_embeddings"] == 4096
