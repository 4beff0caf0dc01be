"""config.json of several families and ages."""

from __future__ import annotations

from typing import Any

import pytest

from trtspec.checkpoints.config import ModelConfig, parse_config
from trtspec.errors import CheckpointError

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def parsed(**data: Any) -> ModelConfig:
    return parse_config(data, "config.json")


def test_names_of_the_llama_and_of_the_gpt2_family() -> None:
    llama = parsed(
        num_hidden_layers=2, hidden_size=8, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64
    )
    gpt2 = parsed(n_layer=2, n_embd=8, n_head=4, n_positions=64)
    assert (llama.layers, llama.hidden, llama.heads, llama.kv_heads, llama.max_positions) == (2, 8, 4, 2, 64)
    assert (gpt2.layers, gpt2.hidden, gpt2.heads, gpt2.kv_heads, gpt2.max_positions) == (2, 8, 4, 4, 64)
    assert parsed(n_head=4, multi_query=True).kv_heads == 1


def test_what_is_not_stated_is_none() -> None:
    config = parsed()
    for value in (config.vocab_size, config.layers, config.tied, config.dtype, config.architecture):
        assert value is None
    assert config.end_ids == ()
    assert config.usable_positions is None


def test_dtype_under_both_names() -> None:
    assert parsed(torch_dtype="bfloat16").dtype == "bfloat16"
    assert parsed(dtype="float16", torch_dtype="float32").dtype == "float16"
    assert parsed(torch_dtype="torch.float32").dtype == "float32"


def test_end_ids_as_number_list_and_nothing() -> None:
    assert parsed(eos_token_id=2).end_ids == (2,)
    assert parsed(eos_token_id=[128001, 128008, 128001]).end_ids == (128001, 128008)
    assert parsed(eos_token_id=None).end_ids == ()


def test_the_language_part_of_a_model_with_several() -> None:
    config = parsed(
        architectures=["Gemma3ForConditionalGeneration"],
        model_type="gemma3",
        eos_token_id=[1, 106],
        text_config={"hidden_size": 8, "num_hidden_layers": 3, "vocab_size": 100, "model_type": "gemma3_text"},
    )
    assert (config.hidden, config.layers, config.vocab_size, config.end_ids) == (8, 3, 100, (1, 106))


@pytest.mark.parametrize(
    ("section", "kind", "where"),
    [
        ({"rope_scaling": {"type": "linear", "factor": 4}}, "linear", "rope_scaling"),
        ({"rope_scaling": LLAMA3}, "llama3", "rope_scaling"),
        ({"rope_parameters": {**LLAMA3, "rope_theta": 1e4}}, "llama3", "rope_parameters"),
        ({"rope_scaling": {"type": "su", "short_factor": [1], "long_factor": [2]}}, "longrope", "rope_scaling"),
        ({"rope_scaling": {"type": "mrope", "rope_type": "default", "mrope_section": [1]}}, "mrope", "rope_scaling"),
        ({"rope_scaling": {"factor": 2}}, None, "rope_scaling"),
    ],
)
def test_rope_scaling_under_either_key(section: dict[str, Any], kind: str | None, where: str) -> None:
    [scaling] = parsed(**section).rope
    assert (scaling.kind, scaling.where) == (kind, where)


@pytest.mark.parametrize(
    "section",
    [
        {},
        {"rope_scaling": None},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
        {"rope_parameters": {"rope_theta": 10000.0}},
        {
            "rope_parameters": {
                "full_attention": {"rope_type": "default"},
                "sliding_attention": {"rope_type": "default"},
            }
        },
    ],
)
def test_no_scaling(section: dict[str, Any]) -> None:
    assert parsed(**section).rope == ()


def test_scaling_per_kind_of_layer() -> None:
    nested = {"full_attention": {"rope_type": "linear", "factor": 8.0}, "sliding_attention": {"rope_type": "default"}}
    [scaling] = parsed(rope_parameters=nested, max_position_embeddings=100).rope
    assert (scaling.kind, scaling.where) == ("linear", "rope_parameters.full_attention")


@pytest.mark.parametrize(
    ("data", "positions"),
    [
        ({"max_position_embeddings": 4096}, 4096),
        ({"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 4.0}}, 16384),
        ({"max_position_embeddings": 32768, "rope_scaling": {"type": "yarn", "factor": 4.0}}, 131072),
        (
            {
                "max_position_embeddings": 131072,
                "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 32768},
            },
            131072,
        ),
        ({"max_position_embeddings": 131072, "rope_scaling": LLAMA3}, 131072),
        ({"max_position_embeddings": 100, "rope_scaling": {"type": "linear", "factor": "x"}}, 100),
        (
            {"max_position_embeddings": 100, "model_type": "gemma3", "rope_scaling": {"type": "linear", "factor": 8}},
            100,
        ),
    ],
)
def test_usable_positions(data: dict[str, Any], positions: int) -> None:
    assert parsed(**data).usable_positions == positions


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ({"vocab_size": "many"}, "vocab_size"),
        ({"vocab_size": -1}, "vocab_size"),
        ({"num_hidden_layers": 2.5}, "num_hidden_layers"),
        ({"hidden_size": True}, "hidden_size"),
        ({"hidden_size": 1 << 32}, "hidden_size"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"n_layers": [1, 10**9]}, "n_layers"),
        ({"vocab_size": 10**400}, "vocab_size"),
        ({"max_position_embeddings": 10**30}, "max_position_embeddings"),
        ({"sliding_window": 10**30}, "sliding_window"),
        ({"rope_scaling": "linear"}, "rope_scaling"),
        ({"architectures": "Llama"}, "architectures"),
        ({"eos_token_id": "</s>"}, "eos_token_id"),
        ({"text_config": []}, "text_config"),
    ],
)
def test_values_of_the_wrong_type_are_named(data: dict[str, Any], named: str) -> None:
    with pytest.raises(CheckpointError, match=named) as caught:
        parse_config(data, "folder/config.json")
    assert caught.value.where == "folder/config.json"
