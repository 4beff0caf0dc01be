"""What divides over how many ranks, for real and for awkward models."""

from __future__ import annotations

from typing import Any

import pytest

from tests.building.tensorrt.metadata import real_config
from trtspec.checkpoints.config import ModelConfig, parse_config
from trtspec.checkpoints.parallel import group_of, largest_tp, nearest_tps, padded_vocabulary, pp_misfit, tp_misfits


def config_of(model: str, **changes: Any) -> ModelConfig:
    return parse_config({**real_config(model), **changes}, "here")


@pytest.mark.parametrize(
    ("model", "tp"),
    [
        ("Llama-3.1-70B-Instruct", 8),
        ("Llama-3.1-70B-Instruct", 16),  # 8 KV heads are copied to 16 ranks
        ("Llama-3.2-1B-Instruct", 8),
        ("Qwen2.5-72B-Instruct", 8),
        ("Qwen2.5-0.5B-Instruct", 2),
        ("gemma-2-27b-it", 4),
        ("Mixtral-8x7B-Instruct-v0.1", 8),
        ("falcon-7b", 1),
    ],
)
def test_models_that_divide(model: str, tp: int) -> None:
    assert tp_misfits(config_of(model), tp) == ()
    assert largest_tp(config_of(model), tp) == tp


@pytest.mark.parametrize(
    ("model", "changes", "tp", "what", "best"),
    [
        ("Qwen2.5-0.5B-Instruct", {}, 4, "attention heads", 2),
        ("falcon-7b", {}, 2, "attention heads", 1),  # 71 heads
        ("Llama-3.1-8B-Instruct", {"num_key_value_heads": 4, "num_attention_heads": 36}, 6, "KV heads", 4),
        ("Llama-3.1-8B-Instruct", {"intermediate_size": 14338}, 4, "columns of the MLP", 2),
        ("Mixtral-8x7B-Instruct-v0.1", {"intermediate_size": 14337}, 2, "columns of an expert", 1),
    ],
)
def test_sizes_that_do_not_divide(model: str, changes: dict[str, int], tp: int, what: str, best: int) -> None:
    config = config_of(model, **changes)
    assert what in {misfit.what for misfit in tp_misfits(config, tp)}
    assert all(f"{tp} ranks" in str(misfit) for misfit in tp_misfits(config, tp))
    assert largest_tp(config, tp) == best


@pytest.mark.parametrize(("kv_heads", "tp", "fits"), [(4, 8, True), (8, 4, True), (6, 4, False), (1, 8, True)])
def test_kv_heads_are_shared_or_copied(kv_heads: int, tp: int, *, fits: bool) -> None:
    config = config_of("Llama-3.1-8B-Instruct", num_key_value_heads=kv_heads)
    assert (tp_misfits(config, tp) == ()) == fits


@pytest.mark.parametrize(
    ("quantization", "tp", "rows"),
    [("int4_awq", 2, "448"), ("int4_awq", 1, None), ("nvfp4", 2, None), ("w4a8_awq", 2, "448"), ("fp8", 2, None)],
)
def test_groups_are_not_cut(quantization: str, tp: int, rows: str | None) -> None:
    config = config_of("Qwen2.5-0.5B-Instruct")
    found = tp_misfits(config, tp, group_of(config, quantization))
    assert [f"{rows} each" in str(misfit) for misfit in found] == ([True] if rows else [])


def test_the_group_of_a_quantized_checkpoint_counts() -> None:
    section = {"quant_method": "gptq", "bits": 4, "group_size": 64}
    config = config_of("Qwen2.5-0.5B-Instruct", quantization_config=section)
    assert group_of(config, "none") == 64
    assert group_of(config_of("Qwen2.5-0.5B-Instruct"), "none") is None
    whole = config_of("Qwen2.5-0.5B-Instruct", quantization_config={**section, "group_size": -1})
    assert group_of(whole, "none") is None


@pytest.mark.parametrize(
    ("model", "tp", "near"),
    [
        ("Llama-3.1-70B-Instruct", 3, (2, 4)),
        ("Llama-3.1-70B-Instruct", 12, (8, 16)),
        ("Qwen2.5-7B-Instruct", 3, (2, 4)),
    ],
)
def test_numbers_of_ranks_nearby(model: str, tp: int, near: tuple[int, ...]) -> None:
    assert nearest_tps(config_of(model), tp) == near


def test_a_model_that_not_even_one_rank_fits() -> None:
    config = config_of("Llama-3.1-8B-Instruct", intermediate_size=14400)
    assert largest_tp(config, 8, 128) is None


@pytest.mark.parametrize(("architecture", "fits"), [("LlamaForCausalLM", True), ("OPTForCausalLM", False)])
def test_most_converters_pad_the_vocabulary(architecture: str, *, fits: bool) -> None:
    config = config_of("Llama-2-7b-chat", vocab_size=32001, architectures=[architecture])
    assert (tp_misfits(config, 2) == ()) == fits
    assert padded_vocabulary(32001, 2) == 32002
    assert padded_vocabulary(32000, 8) == 32000


@pytest.mark.parametrize(("pp", "fits"), [(1, True), (3, True), (80, True), (81, False)])
def test_layers_are_dealt_unevenly_but_not_to_nobody(pp: int, *, fits: bool) -> None:
    assert (pp_misfit(config_of("Llama-3.1-70B-Instruct"), pp) is None) == fits
