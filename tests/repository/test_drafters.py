"""Repositories without a second model, and with lookups before one: models, parameters, tensors, lint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders import toy_spec
from tests.repository.engines import fake_engines
from tests.repository.leaf_facts import violations
from tests.repository.tensorrt import layout_spec, model_configs, parameters
from trtspec.repository import generate
from trtspec.repository.lint import lint_repository
from trtspec.spec import ARMS, SpecFile

LOOKUP_OUTPUTS = {"num_lookup_steps", "total_lookup_draft_tokens", "total_accepted_lookup_draft_tokens"}


def lookup_spec(folder: Path, method: str, **overrides: Any) -> SpecFile:
    draft = {"method": method, **({"checkpoint": "draft"} if method == "lookup" else {})}
    return toy_spec(folder, **{"draft": draft, **overrides})


def generated(spec_file: SpecFile) -> dict[str, Any]:
    generate(spec_file)
    return dict(model_configs(spec_file))


def outputs(config: Any) -> set[str]:
    return {tensor.name for tensor in config.output}


def test_without_a_second_model_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec_file = lookup_spec(tmp_path, "ngram", speculation={"draft_length": 6})
    fake_engines(spec_file, monkeypatch)
    found = generated(spec_file)
    assert set(found) == {f"{arm}/{model}" for arm in ARMS for model in ("tensorrt_llm", "tensorrt_llm_bls")}
    values = parameters(found["speculative/tensorrt_llm_bls"])
    assert (values["tensorrt_llm_draft_model_name"], values["lookup"]) == ("", "true")
    assert (values["num_draft_tokens"], values["max_draft_length"]) == ("6", "8")
    assert (values["lookup_match"], values["lookup_length"]) == ("2", "")
    baseline = parameters(found["baseline/tensorrt_llm_bls"])
    assert "lookup" not in baseline
    assert (baseline["num_draft_tokens"], baseline["max_draft_length"]) == ("0", "0")


def test_what_lookups_were_good_for_is_told_where_there_are_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for method in ("model", "ngram", "lookup"):
        folder = tmp_path / method
        folder.mkdir()
        spec_file = toy_spec(folder) if method == "model" else lookup_spec(folder, method)
        fake_engines(spec_file, monkeypatch)
        found = generated(spec_file)
        told = outputs(found["speculative/tensorrt_llm_bls"]) & LOOKUP_OUTPUTS
        assert told == (set() if method == "model" else LOOKUP_OUTPUTS)
        assert not outputs(found["baseline/tensorrt_llm_bls"]) & LOOKUP_OUTPUTS


@pytest.mark.parametrize(
    ("draft", "speculation", "length"),
    [
        ({}, {}, "8"),
        ({"lookup_length": 5}, {}, "5"),
        ({}, {"max_draft_length": 12}, "12"),
        ({}, {"policy": "adaptive"}, ""),
        ({}, {"policy": "schedule", "schedule": {4: 6}}, ""),
    ],
)
def test_the_length_of_a_lookup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draft: dict[str, Any], speculation: dict[str, Any], length: str
) -> None:
    section = {"method": "lookup", "checkpoint": "draft", **draft}
    spec_file = lookup_spec(tmp_path, "lookup", draft=section, speculation={"draft_length": 3, **speculation})
    fake_engines(spec_file, monkeypatch)
    values = parameters(generated(spec_file)["speculative/tensorrt_llm_bls"])
    assert (values["tensorrt_llm_draft_model_name"], values["num_draft_tokens"]) == ("tensorrt_llm_draft", "3")
    assert values["lookup_length"] == length


@pytest.mark.parametrize("layout", ["ngram", "lookup"])
def test_with_engines_they_are_clean_and_fulfil_the_contract(tmp_path: Path, layout: str) -> None:
    spec_file = layout_spec(tmp_path, "1.2", layout)
    found = generated(spec_file)
    leaves = {name: config for name, config in found.items() if not name.endswith("_bls")}
    assert len(leaves) == (2 if layout == "ngram" else 3)
    assert [problem for config in leaves.values() for problem in violations(config, "1.2")] == []
    for arm in ARMS:
        assert lint_repository(spec_file.repository(arm)).findings == ()


def test_a_target_that_takes_no_drafts_is_found_without_a_second_model(tmp_path: Path) -> None:
    spec_file = layout_spec(tmp_path, "1.2", "ngram")
    generate(spec_file)
    config = spec_file.repository("speculative") / "tensorrt_llm/config.pbtxt"
    text = config.read_text().replace("built/target", "built/baseline")
    config.write_text(text.replace('key: "enable_kv_cache_reuse"\n  value {\n    string_value: "true"',
                                   'key: "enable_kv_cache_reuse"\n  value {\n    string_value: "false"'))  # fmt: skip
    found = {finding.id for finding in lint_repository(spec_file.repository("speculative")).findings}
    assert {"repository-target-without-drafts", "repository-kv-reuse"} <= found
