"""Repositories for TensorRT engines: golden files, and the contract tensor by tensor, parameter by parameter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.repository.leaf_facts import violations
from tests.repository.tensorrt import (
    GOLDEN,
    GOLDEN_FILES,
    LAYOUTS,
    VERSIONS,
    golden_text,
    layout_spec,
    model_configs,
    parameters,
    tensorrt_spec,
)
from trtspec.planning.fit import Load, simulate_load
from trtspec.planning.memory import memory_plan
from trtspec.planning.options import chosen_gpu
from trtspec.repository import generate
from trtspec.spec import Role, SpecFile

LEAVES = {"speculative/tensorrt_llm", "speculative/tensorrt_llm_draft", "baseline/tensorrt_llm"}
FRONTENDS = {"speculative/tensorrt_llm_bls", "baseline/tensorrt_llm_bls"}


def configs(spec_file: SpecFile) -> dict[str, Any]:
    generate(spec_file)
    return dict(model_configs(spec_file))


@pytest.mark.parametrize(("version", "layout"), GOLDEN_FILES)
def test_golden_repositories(tmp_path: Path, version: str, layout: str) -> None:
    """Rewrite the files on purpose only (python -m tests.repository.tensorrt)."""
    spec_file = layout_spec(tmp_path, version, layout)
    generate(spec_file)
    assert golden_text(spec_file) == (GOLDEN / f"{version}-{layout}.txt").read_text()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("version", VERSIONS)
def test_leaves_fulfil_the_contract(tmp_path: Path, version: str, layout: str) -> None:
    found = configs(layout_spec(tmp_path, version, layout))
    assert set(found) == LEAVES | FRONTENDS
    assert {name: violations(found[name], version) for name in LEAVES} == {name: [] for name in LEAVES}


def test_a_wrong_leaf_does_not(tmp_path: Path) -> None:
    """The check of the contract can fail: a leaf of one release is no leaf of another."""
    leaf = configs(tensorrt_spec(tmp_path, VERSIONS["1.2"]))["speculative/tensorrt_llm"]
    assert violations(leaf, "0.19")
    assert violations(leaf, "1.1") == ["enable_trt_overlap is not read by the model"]
    leaf.parameters["enable_kv_cache_reuse"].string_value = "yes"
    leaf.input[0].allow_ragged_batch = False
    del leaf.parameters["tokenizer_dir"]
    assert len(violations(leaf, "1.2")) == 3


def test_every_model_is_decoupled_and_batched_right(tmp_path: Path) -> None:
    found = configs(layout_spec(tmp_path, "1.2", "shared-gpu"))
    for name, config in found.items():
        assert config.model_transaction_policy.decoupled, name
        assert [(group.count, group.kind) for group in config.instance_group] == [(1, 2)]  # KIND_CPU
        assert config.backend == ("tensorrtllm" if name in LEAVES else "python")
        assert config.HasField("dynamic_batching") == (name in LEAVES)
        assert config.max_batch_size == 32
    batching = found["speculative/tensorrt_llm"].dynamic_batching
    assert list(batching.preferred_batch_size) == [32]
    assert batching.default_queue_policy.max_queue_size == 0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_caches_hold_in_any_load_order(tmp_path: Path, layout: str) -> None:
    """Whichever model loads first, both get their tokens: simulated with the values that were written."""
    spec_file = layout_spec(tmp_path, "1.2", layout)
    found = {name: parameters(config) for name, config in configs(spec_file).items()}
    models: dict[Role, str] = {"target": "speculative/tensorrt_llm", "draft": "speculative/tensorrt_llm_draft"}
    gpu, count = chosen_gpu(spec_file)
    plan = memory_plan(spec_file, gpu, {}, count=count)
    for memory in plan.per_gpu:
        here = [role for role in models if memory.of(role)]
        for order in (here, here[::-1]):
            loads = []
            for role in order:
                values = found[models[role]]
                cache = memory.of(role, "kv_cache")
                cap = int(values["max_tokens_in_paged_kv_cache"]) * cache // (plan.kv_cache[role].max_tokens or 1)
                fraction = float(values["kv_cache_free_gpu_mem_fraction"])
                loads.append(Load(role, memory.of(role) - cache, fraction, cap))
            assert memory.total is not None
            for load, outcome in zip(loads, simulate_load(memory.total - memory.of("server"), loads), strict=True):
                assert outcome.kv_bytes == load.cap


@pytest.mark.parametrize(("layout", "on"), [("fast-logits", True), ("tp1-tp1", False)])
def test_logits_have_the_engines_type_on_every_hop(tmp_path: Path, layout: str, on: bool) -> None:
    """float16 engines: FP16 everywhere, but for the handle that stands for the draft's logits with fast logits."""
    sections = dict(LAYOUTS[layout], engine={"pretrained_config__logits_dtype": "float16"})
    found = configs(tensorrt_spec(tmp_path, **sections))
    fp32, fp16 = 11, 10  # DataType
    types = {
        (name, tensor.name): tensor.data_type
        for name in LEAVES
        for tensor in (*found[name].input, *found[name].output)
        if tensor.name.endswith("_logits") and not tensor.name.startswith("return_")
    }
    handles = {
        ("speculative/tensorrt_llm", "draft_logits"),
        ("speculative/tensorrt_llm_draft", "generation_logits"),
    }
    assert len(types) == 9
    assert types == {key: fp32 if on and key in handles else fp16 for key in types}
    flags = {parameters(found[f"speculative/{model}"])["speculative_decoding_fast_logits"] for model in
             ("tensorrt_llm", "tensorrt_llm_draft")}  # fmt: skip
    assert flags == {"true" if on else "false"}
    assert parameters(found["speculative/tensorrt_llm_bls"])["fast_logits"] == ("true" if on else "false")


def test_float32_engines_declare_fp32(tmp_path: Path) -> None:
    leaf = configs(tensorrt_spec(tmp_path))["speculative/tensorrt_llm"]
    assert {tensor.data_type for tensor in leaf.output if tensor.name.endswith("_logits")} == {11}


@pytest.mark.parametrize(("dtype", "type_"), [("float16", 10), ("bfloat16", 14), ("float32", 11)])
def test_the_prompt_table_has_the_engines_type(tmp_path: Path, dtype: str, type_: int) -> None:
    leaf = configs(tensorrt_spec(tmp_path, engine={"pretrained_config__dtype": dtype}))["speculative/tensorrt_llm"]
    assert next(item.data_type for item in leaf.input if item.name == "prompt_embedding_table") == type_


def test_ranks_of_fast_logits_are_disjoint(tmp_path: Path) -> None:
    found = configs(layout_spec(tmp_path, "1.2", "fast-logits"))
    draft, target = (parameters(found[f"speculative/{name}"]) for name in ("tensorrt_llm_draft", "tensorrt_llm"))
    assert (draft["participant_ids"], target["participant_ids"]) == ("1", "2")
    assert parameters(found["baseline/tensorrt_llm"])["participant_ids"] == ""


def test_fast_logits_without_their_conditions_are_left_off_with_a_reason(tmp_path: Path) -> None:
    spec_file = tensorrt_spec(tmp_path, serving={"fast_logits": True})
    made = generate(spec_file)
    assert any("acceptance is by tokens" in note for note in made.notes)
    leaf = dict(model_configs(spec_file))["speculative/tensorrt_llm"]
    assert parameters(leaf)["speculative_decoding_fast_logits"] == "false"
