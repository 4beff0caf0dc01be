"""Differences of repositories in terms of models."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import toy_spec
from tests.repository.engines import fake_engines
from trtspec.repository import VersionChoice, generate, preview
from trtspec.repository.config_diff import ConfigChange
from trtspec.spec import SpecFile


@pytest.fixture
def spec_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SpecFile:
    spec_file = toy_spec(tmp_path)
    fake_engines(spec_file, monkeypatch)
    return spec_file


def changes(spec_file: SpecFile) -> set[tuple[str, str, str, str | None, str | None]]:
    found = preview(spec_file, ["speculative"]).models["speculative"]
    return {(item.model, item.what, item.name, item.before, item.after) for item in found}


def config(spec_file: SpecFile, model: str) -> Path:
    return spec_file.repository("speculative") / model / "config.pbtxt"


def test_models_that_are_new(spec_file: SpecFile) -> None:
    found = preview(spec_file).models
    new = {change.model for change in found["speculative"] if change.what == "model" and change.before is None}
    assert new == {"tensorrt_llm", "tensorrt_llm_draft", "tensorrt_llm_bls"}
    made = generate(spec_file).models
    assert made == found
    assert preview(spec_file).models == {"speculative": (), "baseline": ()}


def test_parameters_tensors_and_settings_are_named(spec_file: SpecFile) -> None:
    generate(spec_file)
    path = config(spec_file, "tensorrt_llm_bls")
    text = path.read_text()
    text = text.replace(
        'key: "max_seq_len"\n  value {\n    string_value: "512"',
        'key: "max_seq_len"\n  value {\n    string_value: "100"',
    )
    text = text.replace('name: "temperature"\n  data_type: TYPE_FP32', 'name: "temperature"\n  data_type: TYPE_FP64')
    text = text.replace("decoupled: true", "decoupled: false").replace('name: "seed"', 'name: "sed"')
    path.write_text(text)
    model = "tensorrt_llm_bls"
    assert changes(spec_file) == {
        (model, "parameter", "max_seq_len", "100", "512"),
        (model, "input", "temperature", "TYPE_FP64 [1] optional", "TYPE_FP32 [1] optional"),
        (model, "input", "sed", "TYPE_UINT64 [1] optional", None),
        (model, "input", "seed", None, "TYPE_UINT64 [1] optional"),
        (model, "setting", "model_transaction_policy.decoupled", None, "True"),
    }


def test_code_is_counted_and_what_cannot_be_parsed_is_said(spec_file: SpecFile) -> None:
    generate(spec_file)
    (config(spec_file, "tensorrt_llm_bls").parent / "1" / "model.py").write_text("# edited\n")
    config(spec_file, "tensorrt_llm").write_text("{{{")
    assert changes(spec_file) == {
        ("tensorrt_llm_bls", "files", "code and other files", None, "1 written"),
        ("tensorrt_llm", "config.pbtxt", "text", "cannot be parsed", "read"),
    }


def test_a_change_of_the_version_policy_is_one_of_settings(spec_file: SpecFile) -> None:
    generate(spec_file)
    found = preview(spec_file, ["baseline"], VersionChoice(serve=(1,))).models["baseline"]
    assert ConfigChange("tensorrt_llm_bls", "setting", "version_policy.specific.versions", None, "1") in found
