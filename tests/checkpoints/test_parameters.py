"""Parameters from config.json alone: against published counts, and against the model classes themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders import tiny_checkpoint
from tests.checkpoints.real_configs import MODELS, PublicModel, config_of
from trtspec.checkpoints import parameter_count
from trtspec.checkpoints.checkpoint import survey_checkpoint
from trtspec.checkpoints.config import parse_config
from trtspec.checkpoints.parameters import ParameterCount


def counted(config: dict[str, Any]) -> ParameterCount:
    count = parameter_count(parse_config(config, "config.json"))
    assert count is not None
    return count


@pytest.mark.parametrize("model", MODELS, ids=[model.name for model in MODELS])
def test_the_published_number_of_parameters(model: PublicModel) -> None:
    count = counted(model.config)
    if model.about:
        assert count.total == pytest.approx(model.parameters, rel=0.01)
    else:
        assert count.total == model.parameters
    if model.active is not None:
        assert count.active == pytest.approx(model.active, rel=0.02 if model.about else 0)
    assert count.total == sum(count.by_class.values())
    assert count.active <= count.total


# small enough to be made in milliseconds; without memory (torch's meta device)
_SMALL = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 128, "max_position_embeddings": 64, "pad_token_id": 0,
}  # fmt: skip
_MOE = {"num_local_experts": 4, "num_experts_per_tok": 2}
_LATENT = {
    "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16, "n_routed_experts": 4,
    "num_experts_per_tok": 2, "n_shared_experts": 2, "moe_intermediate_size": 16, "first_k_dense_replace": 1,
    "n_group": 1, "topk_group": 1,
}  # fmt: skip
_FALCON = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 128}
_GPT = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 32, "vocab_size": 128}
CLASSES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("llama", {**_SMALL, "attention_bias": True, "mlp_bias": True}),
    ("mistral", {**_SMALL, "head_dim": 32}),
    ("gemma2", {**_SMALL, "head_dim": 32}),
    ("gemma3_text", {**_SMALL, "head_dim": 32}),
    ("qwen3", _SMALL),
    ("qwen2_moe", {**_SMALL, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
                   "shared_expert_intermediate_size": 48, "decoder_sparse_step": 2, "mlp_only_layers": []}),
    ("qwen3_moe", {**_SMALL, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
                   "mlp_only_layers": [0], "head_dim": 16}),
    ("phi", _SMALL),
    ("phimoe", {**_SMALL, **_MOE, "attention_bias": True, "lm_head_bias": True}),
    ("granitemoe", {**_SMALL, **_MOE}),
    ("falcon", {**_FALCON, "multi_query": False, "bias": True, "parallel_attn": False, "alibi": True}),
    ("falcon", {**_FALCON, "num_kv_heads": 2, "new_decoder_architecture": True, "num_ln_in_parallel_attn": 1}),
    ("gpt2", _GPT),
    ("gpt_bigcode", {**_GPT, "multi_query": True}),
    ("gptj", {**_GPT, "rotary_dim": 8, "tie_word_embeddings": False}),
    ("gpt_neox", {**_SMALL, "num_key_value_heads": 4, "attention_bias": False}),
    ("bloom", {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 128}),
    ("mpt", {"d_model": 64, "n_layers": 2, "n_heads": 4, "vocab_size": 128, "no_bias": True, "max_seq_len": 32}),
    ("cohere", {**_SMALL, "use_qk_norm": True}),
    ("nemotron", _SMALL),
    ("starcoder2", {**_SMALL, "use_bias": False}),
    ("stablelm", {**_SMALL, "use_qkv_bias": True, "use_parallel_residual": True}),
    ("olmo2", _SMALL),
    ("olmoe", {**_SMALL, "num_experts": 4, "num_experts_per_tok": 2}),
    ("glm4", {**_SMALL, "head_dim": 16, "attention_bias": True}),
    ("gpt_oss", {**_SMALL, **_MOE, "head_dim": 16}),
    ("smollm3", _SMALL),
    ("deepseek_v2", {**_SMALL, **_LATENT, "q_lora_rank": None, "topk_method": "greedy"}),
    ("deepseek_v3", {**_SMALL, **_LATENT, "q_lora_rank": 24, "num_key_value_heads": 4}),
)  # fmt: skip


@pytest.mark.parametrize(("model_type", "sizes"), CLASSES, ids=[f"{n}-{item[0]}" for n, item in enumerate(CLASSES)])
def test_as_many_as_the_model_class_makes(model_type: str, sizes: dict[str, Any]) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(model_type, **sizes)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    made = sum(parameter.numel() for parameter in model.parameters())
    written = {**json.loads(config.to_json_string(use_diff=False)), "architectures": [type(model).__name__]}
    assert counted(written).total == made


def test_classes_agree_with_the_tensors_of_a_checkpoint(tmp_path: Path) -> None:
    survey = survey_checkpoint(tiny_checkpoint(tmp_path, tie=False))
    assert survey.config is not None
    assert survey.weights is not None
    count = parameter_count(survey.config)
    assert count is not None
    assert {name: size // 4 for name, size in survey.weights.bytes_by_class.items()} == count.by_class


def test_a_tied_head_is_counted_once_and_named() -> None:
    count = counted(config_of("Llama-3.2-1B"))
    assert count.tied
    assert count.head == 0
    assert count.embedding == 128256 * 2048


def test_layers_that_differ() -> None:
    """Nemotron's DeciLM: a layer without attention, one whose attention is a linear layer, MLPs of several widths."""
    config = {
        "architectures": ["DeciLMForCausalLM"], "model_type": "nemotron-nas", "hidden_size": 64,
        "num_attention_heads": 8, "num_key_value_heads": None, "intermediate_size": None, "num_hidden_layers": 3,
        "vocab_size": 100,
        "block_configs": [
            {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 6.0}},
            {"attention": {"no_op": True, "n_heads_in_group": None}, "ffn": {"ffn_mult": 12.0}},
            {"attention": {"replace_with_linear": True, "n_heads_in_group": None}, "ffn": {"no_op": True}},
        ],
    }  # fmt: skip
    count = counted(config)
    assert count.attention == 64 * (64 + 2 * 16) + 64 * 64 + 0 + 64 * 64
    assert count.mlp == 3 * 64 * 256 + 3 * 64 * 512
    assert count.norms == 64 * (2 + 1 + 1 + 1)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"architectures": ["BrandNewForCausalLM"], "model_type": "brand_new", "hidden_size": 8},
        {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2},
    ],
)
def test_what_cannot_be_counted_is_none(config: dict[str, Any]) -> None:
    assert parameter_count(parse_config(config, "config.json")) is None
