from __future__ import annotations

import pytest

from tests.planning.known import spec_file, surveys_of
from tests.planning.plan_cases import FP8, PLAN_CASES, SMALL, findings
from trtspec.hardware.catalogue import find_gpu
from trtspec.planning.memory import memory_plan
from trtspec.planning.plan_rules import load_seconds, shared_memory_bytes
from trtspec.rules.registry import Finding

MIB = 2**20


def said(rule_id: str) -> list[Finding]:
    """What a rule finds on its case."""
    return findings(**PLAN_CASES[rule_id])[rule_id]


@pytest.mark.parametrize("rule_id", PLAN_CASES)
def test_a_rule_fires(rule_id: str) -> None:
    assert said(rule_id)


def test_a_plan_that_fits_has_notes_only() -> None:
    found = findings(**SMALL)
    assert {finding.level for group in found.values() for finding in group} <= {"note"}


def test_a_pair_that_does_not_fit_names_the_numbers_and_a_way_out() -> None:
    found = said("memory-too-small")
    assert [finding.role for finding in found] == ["pair", "baseline"]
    first = found[0]
    assert first.level == "error"
    assert first.severity == "OOM"
    assert "target weights 131 GiB" in first.message
    assert "79.6 GiB" in first.message
    assert first.fix is not None
    assert "target.quantization" in first.fix
    assert first.data["short_bytes"] == first.data["needed_bytes"] - first.data["total_bytes"]


def test_a_hopeless_pair_is_told_so() -> None:
    fix = findings("L4", target={"checkpoint": "Llama-3.1-405B"})["memory-too-small"][0].fix
    assert fix is not None
    assert fix.startswith("no single change is enough")


def test_a_cache_smaller_than_the_longest_request() -> None:
    found = said("kv-cache-below-one-request")
    assert [finding.level for finding in found] == ["warning"]
    assert "8 192" in found[0].message


def test_a_cache_smaller_than_an_expected_request_is_an_error() -> None:
    found = findings("L4", target={"checkpoint": "Gemma-2-9B"}, expectations={"prompt_tokens": 6000})
    assert found["kv-cache-below-one-request"][0].level == "error"
    assert "an expected one 6 256" in found["kv-cache-below-one-request"][0].message


def test_fewer_requests_fit_than_the_batch_has_room_for() -> None:
    found = said("kv-cache-below-batch")
    fit = found[0].data["fit"]
    assert 0 < fit < 64
    assert found[0].fix is not None
    assert found[0].fix.startswith(f"set build.max_batch_size: {fit}")


def test_the_default_fraction_in_both_models() -> None:
    found = said("default-fractions-collide")[0]
    assert "draft first: the target does not fit" in found.message
    assert "target first: the draft gets" in found.message
    assert found.fix is not None
    assert "max_tokens_in_paged_kv_cache" in found.fix
    file = spec_file(**SMALL)
    cache = memory_plan(file, find_gpu("H100-80GB-SXM"), surveys_of(file)).kv_cache["draft"]
    assert cache.fraction_any_order is not None
    assert cache.fraction is not None
    assert cache.fraction_any_order > cache.fraction
    # the cap alone does not help a draft that is loaded last: the smaller of cap and fraction is taken
    assert f"draft {cache.fraction_any_order}" in found.fix
    assert f"draft {cache.fraction}," not in found.fix
    assert "default-fractions-collide" not in findings(count=2, **SMALL, draft={"gpus": [1]})


def test_the_builders_default_batch() -> None:
    large = said("decoder-buffers-large")[0]
    assert large.data["bytes"] > 21.5 * 2**30
    assert large.data["max_batch_size"] == 2048
    assert "decoder-buffers-large" not in findings(count=4, target={**FP8, "tp": 4})


def test_a_large_step() -> None:
    found = said("activations-large")[0]
    assert found.fix is not None
    assert "build.max_num_tokens: 32768" in found.fix
    assert "activations-large" not in findings(**SMALL)


def test_more_ranks_than_gpus_were_found() -> None:
    found = said("placement-impossible")[0]
    assert found.level == "error"
    assert found.role == "target"
    assert found.message == "has 4 ranks (tp 4 × pp 1), there are 2 GPUs"


def test_shared_memory_of_python_models() -> None:
    """One preprocessing, one postprocessing, eight frontend instances: 640 MiB."""
    assert shared_memory_bytes(1 + 1 + 8) == 640 * MIB
    fix = said("shared-memory-small")[0].fix
    assert fix is not None
    assert "--shm-size=1024m" in fix


def test_loading_takes_its_time() -> None:
    """140 GB at 0.5 GB/s take 280 s (triton-inference-server/server#7014)."""
    assert load_seconds(140 * 10**9) == 280
    waiting = said("load-time")[0]
    assert waiting.level == "warning"
    assert waiting.data["seconds"] == pytest.approx(287, abs=2)
    patient = findings("H200-141GB-SXM", 2, target={"tp": 2}, serving={"ready_timeout": 600})["load-time"][0]
    assert patient.level == "note"
    assert "load-time" not in findings(target={"checkpoint": "Llama-3.2-1B"})


def test_both_arms_at_once() -> None:
    assert said("both-arms-at-once")[0].data["short_bytes"] > 0
    assert "both-arms-at-once" not in findings(**SMALL)


def test_windowed_layers_keep_everything_unless_told() -> None:
    found = said("attention-window-unset")
    assert [finding.role for finding in found] == ["target"]
    assert found[0].data["layers"] == 21
    assert "attention-window-unset" not in findings(**SMALL)


def test_without_a_gpu_nothing_is_said_to_be_too_small() -> None:
    found = findings(None)
    assert not {"memory-too-small", "kv-cache-below-batch", "default-fractions-collide"} & found.keys()
