"""The tables of NVIDIA's C++ model against the facts, release by release."""

from __future__ import annotations

from typing import Any

import pytest

from tests.repository.leaf_facts import leaf_facts
from trtspec.errors import VersionUnsupported
from trtspec.repository.contract import (
    CONTRACTS,
    ENCODER_FEATURES,
    LOGITS,
    PROMPT_TABLE,
    VERSIONS,
    LeafParameter,
    contract_for,
)
from trtspec.repository.tensors import Tensor

_FILLED = {LOGITS: "logits", PROMPT_TABLE: "prompt_embedding_table", ENCODER_FEATURES: "encoder_input_features"}
_KINDS = {"numbers": "csv int", "choice": "enum"}


def row(tensor: Tensor) -> list[Any]:
    flags = [name for name in ("optional", "ragged", "scalar") if getattr(tensor, name)]
    type_ = _FILLED.get(tensor.type) or tensor.type.removeprefix("TYPE_")
    return [tensor.name, type_, list(tensor.dims), " ".join(flags)]


@pytest.mark.parametrize("version", VERSIONS)
def test_tensors_are_the_models(version: str) -> None:
    contract, facts = CONTRACTS[version], leaf_facts(version)
    assert [row(tensor) for tensor in contract.inputs] == facts["inputs"]
    assert [row(tensor)[:3] for tensor in contract.outputs] == facts["outputs"]


@pytest.mark.parametrize("version", VERSIONS)
def test_parameters_are_the_models(version: str) -> None:
    contract, facts = CONTRACTS[version], leaf_facts(version)["parameters"]
    assert list(contract.parameters) == list(facts)
    for key, parameter in contract.parameters.items():
        known = facts[key]
        kind = "const" if known["kind"] == "const" else _KINDS.get(parameter.kind, parameter.kind)
        shown = (kind, parameter.must_exist, parameter.in_template)
        assert shown == (known["kind"], known["must_exist"], known["template"]), key
        assert (parameter.default or "") == (known["default"] or ""), key
        assert list(parameter.choices) == known.get("choices", []), key


@pytest.mark.parametrize(
    ("version", "min_tokens", "seed"),
    [("0.19.0", "min_length", "random_seed"), ("0.20.0", "min_tokens", "seed"), ("1.2.1", "min_tokens", "seed")],
)
def test_names_that_changed(version: str, min_tokens: str, seed: str) -> None:
    contract = contract_for(version)
    assert (contract.min_tokens_input, contract.seed_input) == (min_tokens, seed)


@pytest.mark.parametrize(
    ("version", "minor"), [("1.0.3.2510", "1.0"), ("1.2.0rc8", "1.2"), ("0.21.0", "0.21"), ("1.2.0.post1", "1.2")]
)
def test_a_release_is_found_by_its_full_version(version: str, minor: str) -> None:
    assert contract_for(version).version == minor


@pytest.mark.parametrize(
    ("version", "message"),
    [("0.18.2", "older than the models"), ("1.3.0", "removed after 1.2"), ("newest", "is not a version")],
)
def test_other_releases_are_refused(version: str, message: str) -> None:
    with pytest.raises(VersionUnsupported, match=message):
        contract_for(version)


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("enable_kv_cache_reuse", "true", None),
        ("enable_kv_cache_reuse", "1", None),
        ("enable_kv_cache_reuse", "yes", "no boolean"),
        ("enable_kv_cache_reuse", "tRue", "no boolean"),
        ("max_tokens_in_paged_kv_cache", "", None),
        ("max_tokens_in_paged_kv_cache", "2048", None),
        ("max_tokens_in_paged_kv_cache", "2k", "no whole number"),
        ("max_tokens_in_paged_kv_cache", "0", "less than 1"),
        ("kv_cache_free_gpu_mem_fraction", "0.4", None),
        ("kv_cache_free_gpu_mem_fraction", "1.5", "more than 1"),
        ("kv_cache_free_gpu_mem_fraction", "nan", "no finite number"),
        ("gpu_device_ids", "0,1;2,3", None),
        ("gpu_device_ids", "0,", "no list"),
        ("gpt_model_type", "inflight_fused_batching", None),
        ("gpt_model_type", "V2", "none of"),
        ("gpt_model_path", "", "is empty"),
        ("gpt_model_path", "${engine_dir}", "placeholder"),
        ("gpt_model_path", "s3://bucket/e", None),
        ("medusa_choices", "{{0}}", None),
        ("medusa_choices", "0,1", "no tree"),
        ("lora_prefetch_dir", "${lora_prefetch_dir}", "placeholder"),
    ],
)
def test_what_the_backend_reads(key: str, value: str, problem: str | None) -> None:
    parameter: LeafParameter = CONTRACTS["1.2"].parameters[key]
    found = parameter.problem(value)
    assert found is None if problem is None else found is not None and problem in found
