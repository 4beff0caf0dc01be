from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import toy_spec
from tests.building.inspection.engines import engine_config
from tests.planning.known import inputs_of, spec_file, surveys_of
from trtspec.building.limits import engine_limits
from trtspec.checkpoints import Survey, survey_checkpoint
from trtspec.errors import BuildError
from trtspec.hardware.catalogue import Gpu, find_gpu
from trtspec.planning.fit import LOAD_ORDERS, Load, simulate_load
from trtspec.planning.memory import MemoryPlan, memory_plan
from trtspec.planning.runtime_costs import engine_sizes
from trtspec.spec import ROLES, SpecFile

GB, GIB = 10**9, 2**30


def plan_of(gpu: str | None = "H100-80GB-SXM", count: int | None = None, **sections: Any) -> MemoryPlan:
    file = spec_file(**sections)
    return memory_plan(file, find_gpu(gpu) if gpu else None, surveys_of(file), count=count)


def big_pair(**more: Any) -> dict[str, Any]:
    target = {"quantization": "fp8", "kv_cache_dtype": "fp8", "tp": 4}
    return {"target": target, "build": {"max_batch_size": 32, "max_num_tokens": 8192}, **more}


def test_the_fraction_is_of_what_is_free_then_so_the_order_decides() -> None:
    """80 GB, weights of 35 and 2.5 GB, 0.9 in both (NVIDIA/TensorRT-LLM#486)."""
    target, draft = Load("target", 35 * GB, 0.9), Load("draft", 5 * GB // 2, 0.9)

    first, second = simulate_load(80 * GB, [target, draft])
    assert (first.free, first.kv_bytes) == (45 * GB, 40_500_000_000)
    assert (second.free, second.kv_bytes) == (2 * GB, 1_800_000_000)

    first, second = simulate_load(80 * GB, [draft, target])
    assert first.kv_bytes == 69_750_000_000
    assert second.kv_bytes is None
    assert second.free < 0


def test_items_add_up_on_every_gpu() -> None:
    plan = plan_of(count=4, **big_pair())
    assert plan.fits
    for gpu in (*plan.per_gpu, *plan.baseline.per_gpu):
        assert gpu.total is not None
        assert gpu.free is not None
        assert gpu.free > 0
        assert gpu.used + gpu.free == gpu.total
        assert all(item.bytes > 0 and any(sign.isdigit() for sign in item.formula) for item in gpu.items)
    kinds = {item.kind for item in plan.per_gpu[0].items}
    assert kinds == {"weights", "kv_cache", "activations", "decoder_buffers", "runtime"}


def test_draft_and_target_hold_the_same_number_of_tokens() -> None:
    plan = plan_of(count=4, **big_pair())
    target, draft = plan.kv_cache["target"], plan.kv_cache["draft"]
    assert target.max_tokens == draft.max_tokens
    assert target.max_tokens is not None
    assert target.max_tokens % 32 == 0
    assert (target.bytes_per_token, draft.bytes_per_token) == (2 * 80 * 2 * 128, 32768)
    shared = plan.per_gpu[0]
    assert shared.of("target", "kv_cache") == target.max_tokens * target.bytes_per_token
    assert shared.of("draft", "kv_cache") == draft.bytes


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["L4", "A100-40GB-SXM", "H100-80GB-SXM", "H200-141GB-SXM", "B200"]),
    st.sampled_from([(1, 1, 1), (2, 1, 2), (4, 2, 4), (4, 1, 8), (2, 2, 4)]),
    st.sampled_from(["none", "fp8", "int4_awq"]),
    st.integers(1, 256),
    st.sampled_from([2048, 8192, 16384]),
    st.integers(1, 16),
)
def test_laws_of_a_plan(
    gpu: str, ranks: tuple[int, int, int], quantization: str, batch: int, tokens: int, drafts: int
) -> None:
    """What fits never exceeds a GPU; with fraction and token cap both load orders give exactly the planned caches."""
    target, draft, count = ranks
    plan = plan_of(
        gpu,
        count,
        target={"tp": target, "quantization": quantization},
        draft={"tp": draft},
        build={"max_batch_size": batch, "max_num_tokens": tokens},
        speculation={"draft_length": drafts, "max_draft_length": drafts},
    )
    arm = plan.speculative
    for item in arm.per_gpu:
        assert item.total is not None
        if arm.fits:
            assert item.used <= item.total
            assert item.of("target", "kv_cache") + item.of("draft", "kv_cache") <= 0.9 * (item.total - item.fixed) + 1
    if not arm.fits:
        assert arm.short > 0 or not arm.kv_cache["target"].max_tokens
        return
    for gpu_memory in arm.per_gpu:
        for order in LOAD_ORDERS:
            here = [role for role in order if gpu_memory.of(role)]
            loads = [
                Load(
                    role,
                    gpu_memory.of(role) - gpu_memory.of(role, "kv_cache"),
                    plan.kv_cache[role].fraction_any_order or 0,
                    gpu_memory.of(role, "kv_cache"),
                )
                for role in here
            ]
            outcomes = simulate_load((gpu_memory.total or 0) - gpu_memory.of("server"), loads)
            assert [outcome.kv_bytes for outcome in outcomes] == [gpu_memory.of(role, "kv_cache") for role in here]


def test_fractions_are_computed_in_load_order() -> None:
    plan = plan_of(count=4, **big_pair())
    assert plan.load_order == ("draft", "target")
    gpu = plan.per_gpu[0]
    assert gpu.total is not None
    before_draft = gpu.total - gpu.of("server") - gpu.of("draft") + gpu.of("draft", "kv_cache")
    before_target = gpu.total - gpu.of("server") - gpu.of("draft") - gpu.of("target") + gpu.of("target", "kv_cache")
    draft, target = plan.kv_cache["draft"], plan.kv_cache["target"]

    assert (draft.free_at_load, target.free_at_load) == (before_draft, before_target)
    assert draft.fraction == pytest.approx(gpu.of("draft", "kv_cache") / before_draft, abs=0.001)
    assert target.fraction == pytest.approx(gpu.of("target", "kv_cache") / before_target, abs=0.001)
    # the other order leaves the draft less, so it has to ask for a larger part of it
    assert draft.fraction is not None
    assert draft.fraction_any_order is not None
    assert draft.fraction_any_order > draft.fraction


def test_both_load_orders_with_the_default_fraction_are_shown() -> None:
    orders = plan_of(count=4, **big_pair()).default_orders
    assert set(orders) == {("draft", "target"), ("target", "draft")}
    assert orders["draft", "target"][1].kv_bytes is None
    given_to_draft = orders["target", "draft"][1].kv_bytes
    assert given_to_draft is not None
    assert given_to_draft < 4 * GIB


def test_a_draft_apart_has_its_own_gpu_and_no_order() -> None:
    plan = plan_of(count=2, draft={"gpus": [1]}, target={"quantization": "fp8"})
    assert plan.placement.shared == ()
    assert plan.default_orders == {}
    assert plan.per_gpu[0].of("draft") == 0
    assert plan.per_gpu[1].of("target") == 0


def test_the_draft_goes_apart_only_where_more_fits() -> None:
    roomy = plan_of(count=2, target={"checkpoint": "Llama-3.1-8B"})
    assert roomy.placement.roles["draft"].gpus == (0,)

    tight = plan_of("A100-40GB-SXM", 2, target={"checkpoint": "Llama-3.1-70B", "quantization": "int4_awq"})
    assert tight.placement.roles["draft"].gpus == (1,)
    assert "more fits" in tight.placement.why


def test_limits_follow_from_the_caches() -> None:
    plan = plan_of(
        count=4, **big_pair(expectations={"prompt_tokens": 4000, "output_tokens": 96}, speculation={"draft_length": 5})
    )
    tokens = plan.kv_cache["target"].max_tokens
    assert tokens is not None
    usual, longest = plan.limits.rooms
    assert usual.tokens == 4096
    assert usual.by_memory == tokens // 4128  # 4096 + 8 drafted, in blocks of 32
    assert longest.by_memory == tokens // 8224
    assert plan.limits.max_concurrent_sequences == min(32, usual.by_memory)
    assert plan.limits.max_prompt_tokens == 8191
    assert plan.limits.max_prompt_with_answer == 8192 - 96


def test_a_small_cache_limits_prompts() -> None:
    build = {"max_batch_size": 16, "max_num_tokens": 4096}
    plan = plan_of("L4", target={"checkpoint": "Gemma-2-9B"}, build=build)
    tokens = plan.kv_cache["target"].max_tokens
    assert tokens is not None
    assert tokens < 4096
    assert plan.limits.max_prompt_tokens == plan.limits.max_prompt_tokens_chunked == tokens - 8 - 1
    assert plan.limits.max_prompt_with_answer == tokens - 8 - 256
    assert plan.limits.rooms[1].by_memory == 0


def test_prompts_go_through_in_one_pass_unless_the_server_cuts_them() -> None:
    """A 32k engine rejects 9000 tokens (NVIDIA/TensorRT-LLM#2702)."""
    length = {"max_seq_len": 32768, "max_num_tokens": 8192}
    limits = plan_of(target={"checkpoint": "Llama-3.1-8B"}, build=length).limits
    assert (limits.max_prompt_tokens, limits.max_prompt_tokens_chunked) == (8192, 32767)
    assert limits.max_prompt_with_answer == 32768 - 256
    roomy = plan_of(target={"checkpoint": "Llama-3.1-8B"}, build={**length, "max_num_tokens": 32768}).limits
    assert roomy.max_prompt_tokens == roomy.max_prompt_tokens_chunked == 32767


def test_a_given_max_input_len_changes_no_limit() -> None:
    """trtllm-build ignores it with packed input and context FMHA."""
    build = {"max_seq_len": 4096, "max_num_tokens": 4096}
    free, given = (plan_of(build={**build, **more}, count=4, target={"tp": 4}) for more in ({}, {"max_input_len": 512}))
    assert free.limits == given.limits


def test_one_process_has_one_context_and_an_orchestrator_one_for_each_rank() -> None:
    direct = plan_of(target={"quantization": "fp8"}).per_gpu[0]
    spawned = plan_of(count=2, target={"tp": 2, "quantization": "fp8"}).per_gpu[0]
    names = [item.role for item in direct.items if item.name.startswith("CUDA context")]
    assert names == ["server"]
    assert [item.role for item in spawned.items if item.name.startswith("CUDA context")] == ["draft", "target"]
    assert not [item for item in spawned.items if item.name.startswith("Triton")]


def test_only_several_ranks_have_nccl() -> None:
    gpu = plan_of(count=2, target={"tp": 2, "quantization": "fp8"}).per_gpu[0]
    assert [item.role for item in gpu.items if "NCCL" in item.name] == ["target"]


def test_logits_cost_buffers_in_both_models() -> None:
    tokens = plan_of(target={"quantization": "fp8"}).per_gpu[0]
    logits = plan_of(target={"quantization": "fp8"}, speculation={"acceptance": "logits"}).per_gpu[0]
    extra = [item for item in logits.items if "acceptance: logits" in item.name]
    assert [item.role for item in extra] == ["draft", "target"]
    assert extra[0].bytes == 8 * 8 * 128256 * 4
    assert not [item for item in tokens.items if "acceptance: logits" in item.name]


@pytest.mark.parametrize(
    ("change", "kind", "role"),
    [
        ({"build": {"max_batch_size": 64}}, "decoder_buffers", "target"),
        ({"build": {"max_num_tokens": 16384}}, "activations", "draft"),
        ({"speculation": {"max_draft_length": 32}}, "decoder_buffers", "target"),
        ({"draft": {"checkpoint": "Llama-3.1-8B"}}, "weights", "draft"),
    ],
)
def test_every_size_changes_its_item(change: dict[str, Any], kind: Any, role: str) -> None:
    base: dict[str, Any] = {"target": {"quantization": "fp8"}}
    before, after = plan_of("H200-141GB-SXM", **base), plan_of("H200-141GB-SXM", **base, **change)
    assert after.per_gpu[0].of(role, kind) > before.per_gpu[0].of(role, kind)


def test_no_gpu_gives_sizes_and_the_smallest_gpus_that_would_do() -> None:
    plan = plan_of(None)
    assert plan.fits is None
    assert plan.note
    assert plan.limits.max_prompt_tokens is None
    assert plan.kv_cache["target"].max_tokens is None
    assert plan.kv_cache["target"].bytes_per_token == 327680
    assert plan.per_gpu[0].free is None
    assert plan.per_gpu[0].of("target", "weights") > 140 * GB
    assert plan.candidates
    assert all(name.startswith("1 × ") and "H100-80GB" not in name for name in plan.candidates)


def test_a_slice_of_a_gpu_has_its_own_memory() -> None:
    file = spec_file(
        target={"checkpoint": "Llama-3.1-8B", "quantization": "fp8"}, hardware={"gpu": "A100-80GB", "memory_gib": 20}
    )
    plan = memory_plan(file, find_gpu("A100-80GB"), surveys_of(file))
    assert plan.per_gpu[0].total == 20 * GIB


def test_what_does_not_fit_says_by_how_much_and_what_would() -> None:
    plan = plan_of("H100-80GB-SXM")
    assert plan.fits is False
    gpu = plan.per_gpu[0]
    assert plan.speculative.short == gpu.fixed - (gpu.total or 0) > 50 * GIB
    assert plan.kv_cache["target"].max_tokens == 0
    assert plan.remedies
    assert all(remedy.fits for remedy in plan.remedies)
    for remedy in plan.remedies:
        sections: dict[str, Any] = {}
        for key, value in remedy.changes.items():
            section, _, name = key.partition(".")
            sections.setdefault(section, {})[name] = value
        count = sections.pop("hardware", {}).get("count")
        again = plan_of("H100-80GB-SXM", count, **sections)
        assert again.fits, remedy.text
        assert again.limits.max_concurrent_sequences == remedy.concurrent
        assert plan.speculative.tightest.fixed - again.speculative.tightest.fixed == remedy.frees


def test_remedies_respect_the_gpu() -> None:
    ampere = plan_of("A100-80GB-SXM").remedies
    assert ampere
    assert not [remedy for remedy in ampere if "fp8" in remedy.text or "nvfp4" in remedy.text]
    hopper = plan_of("H100-80GB-SXM").remedies
    assert [remedy for remedy in hopper if "fp8" in remedy.text]
    assert not [remedy for remedy in hopper if "nvfp4" in remedy.text]


def test_two_changes_together_where_one_is_not_enough() -> None:
    plan = plan_of("L40S", target={"checkpoint": "Llama-3.1-405B", "tp": 8}, count=8)
    assert plan.fits is False
    assert all(remedy.fits for remedy in plan.remedies) or all(not remedy.fits for remedy in plan.remedies)
    pairs = plan_of("A100-40GB-SXM", target={"checkpoint": "Llama-3.1-70B"}, count=1).remedies
    assert pairs
    assert all(remedy.fits for remedy in pairs)
    assert {len(remedy.changes) for remedy in pairs} == {2}


def test_only_changes_that_the_rules_allow_are_proposed() -> None:
    file = spec_file()
    gpu, surveys = find_gpu("H100-80GB-SXM"), surveys_of(file)
    assert any("int4_awq" in remedy.text for remedy in memory_plan(file, gpu, surveys).remedies)
    without = memory_plan(file, gpu, surveys, allowed=lambda spec, _gpu: spec.target.quantization != "int4_awq")
    assert without.remedies
    assert not any("int4_awq" in remedy.text for remedy in without.remedies)


def test_nothing_is_proposed_where_all_fits() -> None:
    assert plan_of(count=4, **big_pair()).remedies == ()


@pytest.mark.parametrize("length", [4096, 8192])
def test_sizes_are_those_that_the_builder_writes(tmp_path: Path, length: int) -> None:
    file = toy_spec(tmp_path, build={"max_batch_size": 300, "max_seq_len": length})
    same_sizes(file, length)


@pytest.mark.parametrize("build", [{"max_batch_size": 1, "max_num_tokens": 8192}, {"max_num_tokens": 24}])
def test_sizes_of_engines_are_capped_and_rounded_as_the_builder_does(tmp_path: Path, build: dict[str, Any]) -> None:
    """8192 tokens never are in flight in one sequence of 1024; 24 are no whole block."""
    file = toy_spec(tmp_path, runtime="tensorrt_llm", build={**build, "max_seq_len": 1024})
    same_sizes(file, 1024)
    assert engine_sizes(file.spec, "draft", 1024).max_num_tokens != build["max_num_tokens"]


def same_sizes(file: SpecFile, length: int) -> None:
    for role in ROLES:
        limits, sizes = engine_limits(file, role), engine_sizes(file.spec, role, length)
        assert (sizes.max_batch_size, sizes.max_seq_len) == (limits.max_batch_size, limits.max_seq_len)
        assert (sizes.max_num_tokens, sizes.max_draft_len) == (limits.max_num_tokens, limits.max_draft_len)


def toy_surveys(file: SpecFile) -> dict[str, Survey]:
    return {role: survey_checkpoint(file.checkpoint(role)) for role in ("target", "draft")}


def test_the_torch_runtime_is_planned_in_system_memory(tmp_path: Path) -> None:
    file = toy_spec(tmp_path)
    plan = memory_plan(file, None, toy_surveys(file), system_bytes=16 * GIB)
    assert plan.fits
    device = plan.per_gpu[0]
    assert (device.gpu, device.total) == ("cpu", 16 * GIB)
    target = plan.inputs.shapes["target"]
    assert (target.dtype, target.kv.dtype) == ("float32", "float32")
    rotary = (512 + 8) * target.kv.head_dim * 4
    assert device.of("target", "weights") == 4 * (target.total_parameters + target.parameters["embedding"]) + rotary
    assert plan.kv_cache["target"].fraction is None
    assert plan.kv_cache["target"].max_tokens == 16384
    assert plan.placement.launch.mode == "direct"
    assert plan.note


def test_the_torch_runtime_in_too_little_memory(tmp_path: Path) -> None:
    file = toy_spec(tmp_path)
    plan = memory_plan(file, None, toy_surveys(file), system_bytes=256 << 20)
    assert plan.fits is False
    assert plan.speculative.short > 0


def test_the_torch_runtime_on_a_gpu(tmp_path: Path) -> None:
    file = toy_spec(tmp_path)
    plan = memory_plan(file, find_gpu("L4"), toy_surveys(file))
    assert plan.per_gpu[0].gpu == 0
    assert plan.inputs.shapes["target"].dtype == "float32"  # as it is stored


def engine_folder(folder: Path, ranks: int, size: int, **changes: Any) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(engine_config("1.2.1", **changes)))
    for rank in range(ranks):
        with (folder / f"rank{rank}.engine").open("wb") as stream:
            stream.truncate(size)
    return folder


def test_a_given_engine_is_planned_from_its_own_files(tmp_path: Path) -> None:
    engine = engine_folder(tmp_path / "target", 1, 3 * GIB)
    file = SpecFile(tmp_path / "trtspec.yaml", spec_file(target={"engine": str(engine)}).spec)
    plan = memory_plan(file, find_gpu("H100"), surveys_of(spec_file()))
    assert plan.per_gpu[0].of("target", "weights") == 3 * GIB
    sizes = plan.inputs.sizes["target"]
    document = json.loads((engine / "config.json").read_text())["build_config"]
    assert (sizes.max_batch_size, sizes.max_seq_len) == (document["max_batch_size"], document["max_seq_len"])
    assert sizes.max_draft_len == document["max_draft_len"]
    assert plan.inputs.max_seq_len == document["max_seq_len"] - document["max_draft_len"]


def test_an_engine_whose_ranks_are_missing(tmp_path: Path) -> None:
    engine = engine_folder(tmp_path / "target", 0, 0)
    file = SpecFile(tmp_path / "trtspec.yaml", spec_file(target={"engine": str(engine)}).spec)
    with pytest.raises(BuildError, match="rank files are missing"):
        memory_plan(file, find_gpu("H100"), surveys_of(spec_file()))


def test_the_plan_as_json() -> None:
    shown = json.loads(json.dumps(plan_of(count=4, **big_pair()).to_json(), allow_nan=False))
    assert {"per_gpu", "kv_cache", "fits", "remedies", "load_order"} <= shown.keys()
    assert set(shown["kv_cache"]) == {"target", "draft", "baseline"}
    first = shown["per_gpu"][0]
    assert {"gpu", "total_bytes", "items", "free_bytes"} <= first.keys()
    assert {"role", "kind", "bytes", "formula"} <= first["items"][0].keys()
    assert {"bytes_per_token", "max_tokens", "free_gpu_mem_fraction"} <= shown["kv_cache"]["target"].keys()


def test_inputs_count_the_gpus_that_ranks_and_numbers_need() -> None:
    assert inputs_of(spec_file(target={"tp": 2})).count == 2
    assert inputs_of(spec_file(draft={"gpus": [3]})).count == 4
    assert inputs_of(spec_file(hardware={"gpu": "L4", "count": 6})).count == 6


def test_a_gpu_may_be_made_up() -> None:
    gpu = Gpu("made-up", 10 * GIB, 1e12, 90, {"float16": 1e14}, 1e11, "test")
    file = spec_file(target={"checkpoint": "Llama-3.2-1B"})
    assert memory_plan(file, gpu, surveys_of(file)).fits
