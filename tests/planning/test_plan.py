from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.builders import tiny_checkpoint, toy_spec
from tests.building.inspection.engines import engine_folder
from tests.planning.models import mixtral, speed_model
from tests.planning.pairs import LLAMA_1B, LLAMA_70B, metadata_pair, metadata_spec
from trtspec.errors import UsageError
from trtspec.hardware.catalogue import find_gpu
from trtspec.planning.acceptance import Acceptance
from trtspec.planning.forecast import Forecast
from trtspec.planning.plan import Plan, PlanOptions, make_plan
from trtspec.spec import SpecFile


@pytest.fixture(scope="module")
def spec_file(tmp_path_factory: pytest.TempPathFactory) -> SpecFile:
    return metadata_spec(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def plan(spec_file: SpecFile) -> Plan:
    return make_plan(spec_file, PlanOptions(acceptance_rate=0.6, price=3.0))


def test_the_document_has_the_keys_that_others_rely_on(plan: Plan) -> None:
    data = json.loads(json.dumps(plan.to_json(), allow_nan=False))
    assert data["schema"] == 1
    assert {"per_gpu", "kv_cache"} <= data["memory"].keys()
    for gpu in data["memory"]["per_gpu"]:
        assert {"gpu", "total_bytes", "items", "free_bytes"} <= gpu.keys()
        assert all({"role", "kind", "bytes", "formula"} <= item.keys() for item in gpu["items"])
    for cache in data["memory"]["kv_cache"].values():
        assert {"bytes_per_token", "max_tokens", "free_gpu_mem_fraction"} <= cache.keys()
    assert {"max_prompt_tokens", "max_concurrent_sequences"} <= data["limits"].keys()
    placement = data["placement"]
    assert {"launch_mode", "world_size"} <= placement.keys()
    assert {"gpus", "tp"} <= placement["target"].keys()
    assert all({"value", "origin"} <= row.keys() for row in data["values"].values())
    assert {row["origin"] for row in data["values"].values()} <= {"given", "default", "derived"}
    assert data["speedup"]["acceptance"]["acceptance_rate"] == 0.6
    assert data["cost"]["price_per_gpu_hour"] == 3.0


def test_the_verdict_says_fit_speed_limit_and_what_to_set(plan: Plan) -> None:
    assert plan.ok
    assert plan.verdict.startswith("fits on 4 × H100-80GB-SXM, 32 sequences at once; expected ×")
    assert "at concurrency 1" in plan.verdict
    assert "set speculation.draft_length: " in plan.verdict


def test_without_an_acceptance_nothing_is_assumed(spec_file: SpecFile) -> None:
    found = make_plan(spec_file)
    data = found.to_json()["speedup"]
    assert data["acceptance"] is None
    assert "never assumed" in data["reason"]
    assert all(cell["speedup"] is None for cell in data["grid"])
    for cell in data["grid"]:
        needed = cell["break_even"]
        assert needed["reason"] if needed["acceptance_rate"] is None else 0 < needed["acceptance_rate"] < 1
    assert data["best"] == []
    assert "pays at concurrency 1 when more than" in found.verdict
    assert {row["arm"] for row in found.to_json()["cost"]["rows"]} == {"baseline"}


def test_the_acceptance_of_the_spec_is_used_and_the_option_wins(tmp_path: Path) -> None:
    spec = metadata_spec(tmp_path, expectations={"acceptance_rate": 0.5})
    assert make_plan(spec).to_json()["speedup"]["acceptance"]["origin"] == "spec"
    data = make_plan(spec, PlanOptions(acceptance_rate=0.7)).to_json()
    assert data["speedup"]["acceptance"]["origin"] == "option"
    assert data["values"]["expectations.acceptance_rate"] == {
        "value": 0.7, "origin": "given", "why": "--acceptance-rate",
    }  # fmt: skip


def cells(plan: Plan) -> dict[tuple[int, int], Any]:
    return {(cell["draft_length"], cell["concurrency"]): cell for cell in plan.to_json()["speedup"]["grid"]}


def test_draft_lengths_of_0_and_5_differ(spec_file: SpecFile) -> None:
    options = PlanOptions(acceptance_rate=0.6, draft_lengths=(0, 5), concurrencies=(1, 16))
    found = cells(make_plan(spec_file, options))
    assert found.keys() == {(0, 1), (0, 16), (5, 1), (5, 16)}
    assert found[0, 1]["speedup"] == 1.0
    assert found[5, 1]["speedup"] > 1.2
    assert found[5, 1]["performance"] != found[0, 1]["performance"]


OPTIONS: dict[str, PlanOptions] = {
    "acceptance_rate": PlanOptions(acceptance_rate=0.3),
    "gpu": PlanOptions(acceptance_rate=0.6, gpu="H200"),
    "count": PlanOptions(acceptance_rate=0.6, count=8),
    "price": PlanOptions(acceptance_rate=0.6, price=4.0),
    "concurrencies": PlanOptions(acceptance_rate=0.6, concurrencies=(1, 3)),
    "draft_lengths": PlanOptions(acceptance_rate=0.6, draft_lengths=(7,)),
    "assumptions": PlanOptions(acceptance_rate=0.6, assumptions={"bandwidth_efficiency": 0.5}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_changes_the_plan(spec_file: SpecFile, name: str) -> None:
    plain = make_plan(spec_file, PlanOptions(acceptance_rate=0.6)).to_json()
    assert make_plan(spec_file, OPTIONS[name]).to_json() != plain


@pytest.mark.parametrize(
    ("section", "value"),
    [
        ("expectations", {"prompt_tokens": 4096}),
        ("expectations", {"output_tokens": 1024}),
        ("expectations", {"requests_per_second": 4}),
        ("speculation", {"draft_length": 6, "max_draft_length": 8}),
        ("build", {"max_batch_size": 32, "max_seq_len": 8192, "max_num_tokens": 1024}),
        ("draft", {"checkpoint": "draft", "quantization": "fp8"}),
    ],
)
def test_every_expectation_changes_speed_or_cost(tmp_path: Path, section: str, value: dict[str, Any]) -> None:
    options = PlanOptions(acceptance_rate=0.6, price=3.0)
    plain = make_plan(metadata_spec(tmp_path), options).to_json()
    changed = make_plan(metadata_spec(tmp_path, **{section: value}), options).to_json()
    assert (changed["speedup"], changed["cost"]) != (plain["speedup"], plain["cost"])


def test_a_gpu_that_is_too_small_is_a_plan_that_does_not_work(spec_file: SpecFile) -> None:
    found = make_plan(spec_file, PlanOptions(gpu="L4"))
    assert not found.ok
    assert found.verdict.startswith("does not fit on 4 × L4: 2.41 GiB short on a GPU; set ")


def test_no_gpu_gives_sizes_and_candidates(tmp_path: Path) -> None:
    found = make_plan(metadata_spec(tmp_path, hardware=None))
    data = found.to_json()
    assert found.ok
    assert data["speedup"] is None
    assert "hardware.gpu" in data["reasons"]["speedup"]
    assert data["cost"] is None
    assert "would fit 4 × " in found.verdict


def test_gpus_that_cannot_compute_the_quantization_are_no_candidates(tmp_path: Path) -> None:
    memory = make_plan(metadata_spec(tmp_path, hardware=None)).memory
    assert memory is not None
    sms = {find_gpu(name.removeprefix("4 × ")).sm for name in memory.candidates}
    assert sms
    assert min(sms) >= 89  # fp8 weights and cache
    integer = metadata_spec(tmp_path, hardware=None, target={"checkpoint": "target", "quantization": "int4_awq"})
    memory = make_plan(integer).memory
    assert memory is not None
    assert any(find_gpu(name.removeprefix("1 × ")).sm < 89 for name in memory.candidates)


def test_the_torch_runtime_on_a_cpu_has_no_forecast(tmp_path: Path) -> None:
    found = make_plan(toy_spec(tmp_path), PlanOptions(acceptance_rate=0.5))
    assert found.ok
    assert found.forecast is None
    assert "for GPUs" in found.reasons["speedup"]
    assert found.verdict.startswith("fits in this machine's memory")


def test_the_torch_runtime_on_a_gpu_says_that_it_is_slower(tmp_path: Path) -> None:
    found = make_plan(toy_spec(tmp_path), PlanOptions(gpu="L4", acceptance_rate=0.5))
    assert found.forecast is not None
    assert found.to_json()["speedup"]["caveat"]


def test_prices_of_another_gpu_are_not_kept(tmp_path: Path) -> None:
    spec = metadata_spec(tmp_path, hardware={"gpu": "H100", "count": 4, "price_per_hour": 3.0, "memory_gib": 80})
    assert make_plan(spec).prices.gpu_hour == 3.0
    other = make_plan(spec, PlanOptions(gpu="H200"))
    assert other.prices.gpu_hour is None
    assert other.gpu is not None
    assert other.gpu.memory_bytes > 100 * 2**30


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (PlanOptions(gpu="H1000X"), "H1000X"),
        (PlanOptions(assumptions={"nothing": 1.0}), "nothing"),
        (PlanOptions(assumptions={"compute_efficiency": 2.0}), "compute_efficiency"),
    ],
)
def test_what_is_not_known_is_refused(spec_file: SpecFile, options: PlanOptions, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        make_plan(spec_file, options)


def test_a_count_without_a_gpu_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--count needs a GPU"):
        make_plan(metadata_spec(tmp_path, hardware=None), PlanOptions(count=2))


def test_a_pair_that_cannot_be_served_says_so_first(tmp_path: Path) -> None:
    metadata_pair(tmp_path)
    tiny_checkpoint(tmp_path / "draft", extra_tokens=[f"<extra{i}>" for i in range(40)])
    (tmp_path / "draft" / "tokenizer.json").unlink()
    found = make_plan(metadata_spec(tmp_path))
    assert not found.ok
    assert found.verdict.startswith("cannot be served: ")


def test_a_checkpoint_that_cannot_be_read_is_a_finding_and_no_traceback(tmp_path: Path) -> None:
    metadata_pair(tmp_path)
    (tmp_path / "target" / "config.json").write_text("{")
    found = make_plan(metadata_spec(tmp_path))
    data = found.to_json()
    assert not found.ok
    assert data["memory"] is None
    assert data["reasons"]["memory"]
    assert data["findings"]


def test_a_draft_apart_pays_for_its_gpu(tmp_path: Path) -> None:
    spec = metadata_spec(
        tmp_path, hardware={"gpu": "H100", "count": 5, "price_per_hour": 2}, draft={"checkpoint": "draft", "gpus": [4]}
    )
    cost = make_plan(spec, PlanOptions(acceptance_rate=0.6)).to_json()["cost"]
    assert cost["deployments"]["baseline"]["gpus"] == 4
    assert cost["deployments"]["speculative"]["gpus"] == 5


def test_a_draft_of_the_targets_size_never_pays(tmp_path: Path) -> None:
    metadata_pair(tmp_path, target=LLAMA_1B, draft=LLAMA_1B)
    spec = metadata_spec(tmp_path, target={"checkpoint": "target"}, hardware={"gpu": "H100"})
    verdict = make_plan(spec, PlanOptions(acceptance_rate=0.9, concurrencies=(1, 4))).verdict
    assert "speculation loses" in verdict
    assert "leave it off" in verdict


def test_the_verdict_speaks_of_sequences_that_fit(plan: Plan) -> None:
    """It loses above some tens of requests: with room for one that is no limit, with room for 64 it is."""
    forecast = plan.forecast
    assert forecast is not None
    small, large = (replace(forecast.grid, concurrencies=(1, 64), limit=limit) for limit in (1, 64))
    kept = replace(plan, forecast=replace(forecast, grid=small)).verdict
    assert "no loss" in kept
    assert "loses above" not in kept
    assert "loses above " in replace(plan, forecast=replace(forecast, grid=large)).verdict


def test_what_pays_only_where_nothing_fits_is_a_loss(plan: Plan) -> None:
    """Experts: verifying touches many of them at small batches, so speculation pays from some concurrency on."""
    forecast = plan.forecast
    assert forecast is not None
    grid = replace(forecast.grid, concurrencies=(1, 2, 16), limit=2)
    model = speed_model(mixtral(), gpu="H100")
    found = Forecast(model, grid, Acceptance(0.25, 4, "option"), None)
    assert max(found.best, key=lambda item: item.speedup).concurrency == 16
    verdict = replace(plan, forecast=found).verdict
    assert "speculation loses" in verdict
    assert "concurrency 16" not in verdict


def test_no_change_is_proposed_that_a_check_would_refuse(tmp_path: Path) -> None:
    """TensorRT-LLM's quantizer does not know Cohere's models; Llama's it does."""
    proposed = {}
    for name in ("LlamaForCausalLM", "CohereForCausalLM"):
        folder = tmp_path / name
        metadata_pair(folder, target={**LLAMA_70B, "architectures": [name]})
        spec = metadata_spec(folder, target={"checkpoint": "target"}, hardware={"gpu": "H100", "count": 1})
        memory = make_plan(spec).memory
        assert memory is not None
        assert memory.fits is False
        proposed[name] = " ".join(remedy.text for remedy in memory.remedies)
    assert "target.quantization: fp8" in proposed["LlamaForCausalLM"]
    assert "target.quantization" not in proposed["CohereForCausalLM"]
    assert proposed["CohereForCausalLM"]


def given_engines(folder: Path, architecture: str) -> SpecFile:
    """A pair of engines that are there already."""
    metadata_pair(folder)
    sizes: dict[str, Any] = {"pretrained_config__intermediate_size": 8192}
    plain: dict[str, Any] = {"build_config__max_draft_len": 0, "build_config__speculative_decoding_mode": 1}
    engine_folder(folder / "engine-target", **sizes, pretrained_config__architecture=architecture)
    engine_folder(folder / "engine-draft", **sizes, **plain)
    return metadata_spec(
        folder,
        target={"checkpoint": "target", "engine": "engine-target"},
        draft={"checkpoint": "draft", "engine": "engine-draft"},
        hardware={"gpu": "H100"},
    )


def test_given_engines_are_forecast(tmp_path: Path) -> None:
    found = make_plan(given_engines(tmp_path, "LlamaForCausalLM"), PlanOptions(acceptance_rate=0.6))
    assert found.forecast is not None
    assert found.forecast.model.target.origin == "engine"


def test_an_engine_whose_parameters_cannot_be_counted_is_not_forecast(tmp_path: Path) -> None:
    found = make_plan(given_engines(tmp_path, "NobodysForCausalLM"), PlanOptions(acceptance_rate=0.6))
    assert found.forecast is None
    assert "cannot be counted" in found.reasons["speedup"]
    assert "the baseline arm does not fit" in found.verdict, "it is built of the 70B checkpoint"
    assert found.memory is not None
    fitting = replace(found.memory, baseline=replace(found.memory.baseline, fits=True))
    own = replace(found, memory=fitting, own_findings=())
    assert "not forecast (the parameters of the target engine's family cannot be counted)" in own.verdict
