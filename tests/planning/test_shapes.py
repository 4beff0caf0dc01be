from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders import tiny_checkpoint
from tests.planning.known import CONFIGS, shape_of, survey_of
from trtspec.checkpoints import survey_checkpoint
from trtspec.errors import CheckpointError
from trtspec.planning.shapes import model_shape, pipeline_layers
from trtspec.planning.weights import quantized_bytes
from trtspec.spec import ModelSource

GIB = 2**30


def test_headers_and_configuration_count_the_same(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "m", hidden=64, layers=3, heads=4, kv_heads=2, tie=False, dtype="float16")
    source = ModelSource(checkpoint=folder)
    with_weights = model_shape(survey_checkpoint(folder), source)
    (folder / "model.safetensors").unlink()
    without = model_shape(survey_checkpoint(folder), source)

    assert (with_weights.origin, without.origin) == ("headers", "config")
    assert with_weights.parameters == without.parameters
    assert with_weights.weight_bytes == 2 * sum(without.parameters.values())


@pytest.mark.parametrize(
    ("quantization", "each"),
    [
        ("none", 2.0),
        ("fp8", 1.0),
        ("int8_wo", 1 + 2 / 4096),
        ("int8_sq", 1 + 2 / 4096),
        ("int4_wo", 0.5 + 2 / 4096),
        ("int4_awq", 0.5 + 2 / 128),
        ("w4a8_awq", 0.5 + 2 / 128),
        ("nvfp4", 0.5 + 1 / 16),
    ],
)
def test_layers_are_quantized_embedding_head_and_norms_are_not(quantization: str, each: float) -> None:
    shape = shape_of("Llama-3.1-8B", quantization=quantization)
    layers = shape.parameters["attention"] + shape.parameters["mlp"]
    outer = shape.total_parameters - layers

    assert shape.layer_weight_bytes == each
    assert shape.weight_bytes == round(layers * each + outer * 2)


def test_an_awq_group_of_another_size() -> None:
    assert quantized_bytes("int4_awq", "float16", group_size=64) == 0.5 + 2 / 64


def test_one_scale_for_a_whole_row_is_no_negative_group() -> None:
    """GPTQ checkpoints write group_size -1 for it; without their weights the planner counts bytes by it."""
    quant = {"quant_method": "gptq", "bits": 4, "group_size": -1}
    shape = shape_of("Llama-3.1-8B", config={"quantization_config": quant})
    assert (shape.quantization, shape.group_size) == ("int4_awq", 4096)
    assert shape.layer_weight_bytes == 0.5 + 2 / 4096


@pytest.mark.parametrize("name", sorted(CONFIGS))
@pytest.mark.parametrize(("tp", "pp"), [(2, 1), (4, 1), (2, 2), (8, 1), (1, 4)])
def test_ranks_hold_all_weights_and_copies_of_the_small_parts_only(name: str, tp: int, pp: int) -> None:
    whole = shape_of(name)
    split = shape_of(name, tp=tp, pp=pp)
    ranks = [split.rank_weight_bytes(rank) for rank in range(tp * pp)]
    tied_head = whole.class_bytes("embedding") if whole.tied else 0
    copied = (tp - 1) * sum(whole.class_bytes(part) for part in ("embedding", "norms", "other"))

    assert sum(ranks) == pytest.approx(whole.weight_bytes + copied + tied_head, abs=tp * pp)


def test_the_embedding_is_copied_and_the_head_split() -> None:
    one, four = shape_of("Llama-3.1-70B"), shape_of("Llama-3.1-70B", tp=4)
    layers = one.class_bytes("attention") + one.class_bytes("mlp")
    expected = layers / 4 + one.class_bytes("norms") + one.class_bytes("embedding") + one.class_bytes("head") / 4

    assert four.rank_weight_bytes(0) == four.rank_weight_bytes(3) == round(expected)


def test_a_tied_embedding_is_shared_on_one_rank_only() -> None:
    one, two = shape_of("Llama-3.2-1B"), shape_of("Llama-3.2-1B", tp=2)
    assert one.rank_weight_bytes(0) == one.weight_bytes
    assert two.rank_weight_bytes(0) > one.weight_bytes / 2 + one.class_bytes("embedding") / 2


@pytest.mark.parametrize(
    ("tp", "heads"), [(1, 8), (2, 4), (4, 2), (8, 1), (16, 1), (3, 3)]
)  # fmt: skip
def test_kv_heads_are_split_and_copied_beyond_their_number(tp: int, heads: int) -> None:
    shape = shape_of("Llama-3.1-70B", tp=tp)
    assert shape.kv_bytes_per_token == 2 * 80 * heads * 128 * 2


def test_pipeline_stages_hold_the_caches_of_their_layers() -> None:
    shape = shape_of("Llama-3.1-405B", pp=4, tp=8, kv_cache_dtype="fp8")
    stages = [shape.rank_kv_bytes(8 * stage) for stage in range(4)]
    assert stages == [2 * layers * 128 for layers in (32, 32, 31, 31)]
    assert shape.kv_bytes_per_token == max(stages)


@pytest.mark.parametrize(("layers", "pp"), [(80, 1), (80, 4), (126, 4), (3, 3), (7, 2)])
def test_stages_cover_every_layer_once(layers: int, pp: int) -> None:
    stages = pipeline_layers(layers, pp)
    assert [layer for stage in stages for layer in stage] == list(range(layers))
    assert max(map(len, stages)) - min(map(len, stages)) <= 1


def test_a_windowed_layer_keeps_its_window_when_it_is_bounded() -> None:
    kv = shape_of("Mistral-7B-v0.1").kv
    assert kv.bytes_per_sequence(32768) == 32768 * 131072
    assert kv.bytes_per_sequence(32768, bounded=True) == 4096 * 131072
    assert kv.bytes_per_sequence(100, bounded=True) == 100 * 131072


def test_every_other_layer_of_gemma_has_a_window() -> None:
    kv = shape_of("Gemma-2-9B").kv
    assert (kv.window, kv.windowed, len(kv.heads)) == (4096, 21, 42)
    per_layer = 2 * 8 * 256 * 2
    assert kv.bytes_per_sequence(8192, bounded=True) == per_layer * (21 * 8192 + 21 * 4096)


def test_sequences_are_rounded_up_to_blocks() -> None:
    kv = shape_of("Llama-3.1-8B").kv
    assert kv.bytes_per_sequence(33, block=32) == 64 * 131072


def test_a_token_is_multiplied_with_all_but_the_embedding() -> None:
    shape = shape_of("Llama-3.1-8B")
    assert shape.active_parameters == shape.total_parameters - 128256 * 4096
    assert shape.flops_per_token == 2 * shape.active_parameters
    assert shape.attention_flops(1000) == 4 * 32 * 32 * 128 * 1000


@pytest.mark.parametrize("per_token", [None, 9])
def test_a_token_is_sent_to_no_more_experts_than_there_are(per_token: int | None) -> None:
    """All of them where config.json leaves it out, which is the safe side."""
    shape = shape_of("Mixtral-8x7B", config={"num_experts_per_tok": per_token})
    assert shape.experts_per_token == shape.experts == 8
    assert shape.bytes_read(1) == shape.bytes_read(10_000)
    assert shape.active_parameters == shape.total_parameters - shape.parameters["embedding"]


def test_a_mixture_reads_the_experts_that_its_tokens_are_sent_to() -> None:
    shape = shape_of("Mixtral-8x7B")
    experts = shape.class_bytes("experts")
    rest = shape.weight_bytes - experts - shape.class_bytes("embedding")

    assert shape.bytes_read(1) == pytest.approx(rest + experts / 4)
    assert shape.bytes_read(2) == pytest.approx(rest + experts * (1 - 0.75**2))
    assert shape.bytes_read(10_000) == pytest.approx(rest + experts)


def test_a_quantized_checkpoint_keeps_its_precision() -> None:
    config = {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 64, "version": "gemm"}}
    shape = shape_of("Qwen2.5-72B", config=config)
    assert shape.quantization == "int4_awq"
    assert shape.layer_weight_bytes == 0.5 + 2 / 64


def test_auto_turns_float32_into_float16_as_the_converters_do() -> None:
    assert shape_of("Llama-3.1-8B", config={"torch_dtype": "float32"}).dtype == "float16"
    assert shape_of("Llama-3.1-8B", dtype="float32").kv_bytes_per_token == 2 * 131072


def test_a_padded_vocabulary_is_a_multiple_of_tp() -> None:
    shape = shape_of("OPT-13B", tp=6)
    assert shape.vocab_padded == 50274


def test_a_configuration_without_sizes_is_refused_with_their_names() -> None:
    survey = survey_of("Llama-3.1-8B", num_hidden_layers=None, hidden_size=None)
    with pytest.raises(CheckpointError, match="num_hidden_layers, hidden_size") as caught:
        model_shape(survey, ModelSource(checkpoint=Path("m")))
    assert caught.value.fix


def test_a_quantized_checkpoint_weighs_what_its_files_hold(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "m", hidden=64, tie=False, dtype="float16")
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "fp8", "activation_scheme": "dynamic"}
    (folder / "config.json").write_text(json.dumps(config))
    survey = survey_checkpoint(folder)
    shape = model_shape(survey, ModelSource(checkpoint=folder))

    assert survey.weights is not None
    assert shape.quantization == "fp8"
    assert shape.weight_bytes == survey.weights.size
    assert "as stored" in shape.weight_formula()
