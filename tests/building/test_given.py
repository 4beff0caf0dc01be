"""Engines that the spec names: inspected like our own, with what the spec writes and the checkpoint says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import tiny_checkpoint
from tests.building.inspection.engines import engine_folder
from trtspec.building.given import given_expectation, inspect_given
from trtspec.errors import SpecError, UsageError, VersionUnsupported
from trtspec.spec import SpecFile, load_spec

PLAIN: dict[str, Any] = {"build_config__speculative_decoding_mode": 1, "build_config__max_draft_len": 0}


def spec_with(folder: Path, **overrides: Any) -> SpecFile:
    """A spec whose engines lie in target/, draft/ and baseline/, none with a checkpoint."""
    data = {
        "name": "given",
        "runtime": "tensorrt_llm",
        "target": {"engine": "engines/target"},
        "draft": {"engine": "engines/draft"},
        "baseline": {"engine": "engines/baseline"},
        "speculation": {"draft_length": 5},
        **overrides,
    }
    path = folder / "trtspec.yaml"
    path.write_text(yaml.safe_dump(data))
    return load_spec(path)


def ids(spec_file: SpecFile, role: Any) -> list[str]:
    return [finding.id for finding in inspect_given(spec_file, role)[1]]


def test_without_a_checkpoint_the_engine_is_believed(tmp_path: Path) -> None:
    spec_file = spec_with(tmp_path)
    engine_folder(tmp_path / "engines" / "target", "1.1.0", pretrained_config__architecture="SomethingElse")
    engine_folder(tmp_path / "engines" / "draft", "1.1.0", **PLAIN)
    engine_folder(tmp_path / "engines" / "baseline", "1.1.0", **PLAIN)
    for role in ("target", "draft", "baseline"):
        folder, findings = inspect_given(spec_file, role)
        assert folder == tmp_path / "engines" / role
        assert findings == ()


def test_a_target_without_enough_draft_tokens(tmp_path: Path) -> None:
    spec_file = spec_with(tmp_path)
    engine_folder(tmp_path / "engines" / "target", build_config__max_draft_len=4)
    [finding] = inspect_given(spec_file, "target")[1]
    assert finding.message == "the target engine takes at most 4 draft tokens a step, the spec drafts 5"


def test_version_and_gpu_come_from_the_spec(tmp_path: Path) -> None:
    deployment: dict[str, Any] = {
        "tensorrt_llm": {"image": "26.03-trtllm-python-py3"},
        "hardware": {"gpu": "H100-80GB-SXM"},
    }
    spec_file = spec_with(tmp_path, **deployment)
    engine_folder(tmp_path / "engines" / "target", "1.1.0", manifest={"sm": 89})
    findings = {finding.id: finding for finding in inspect_given(spec_file, "target")[1]}
    assert set(findings) == {"engine-version", "engine-gpu"}
    assert "26.03-trtllm-python-py3 carries 1.2.0" in findings["engine-version"].message
    assert "26.02-trtllm-python-py3" in (findings["engine-version"].fix or "")
    assert findings["engine-gpu"].data == {"sm": 89, "expected": 90}


def test_what_the_spec_writes_is_asked_for(tmp_path: Path) -> None:
    written: dict[str, Any] = {
        "target": {
            "engine": "engines/target",
            "dtype": "float16",
            "quantization": "fp8",
            "kv_cache_dtype": "fp8",
            "tp": 2,
        },
        "build": {"max_seq_len": 9000, "max_batch_size": 64, "logits_dtype": "float16"},
    }
    spec_file = spec_with(tmp_path, **written)
    engine_folder(tmp_path / "engines" / "target")
    assert sorted(ids(spec_file, "target")) == [
        "engine-dtype",
        "engine-kv-quantization",
        "engine-logits-dtype",
        "engine-mapping",
        "engine-quantization",
        "engine-sizes",
        "engine-sizes",
    ]
    assert given_expectation(spec_file, "target").max_seq_len == 9005
    assert given_expectation(spec_file, "draft").max_seq_len == 9000


def test_a_checkpoint_beside_the_engine_is_compared(tmp_path: Path) -> None:
    tiny_checkpoint(tmp_path / "checkpoint")
    config = tmp_path / "checkpoint" / "config.json"
    scaling = '"rope_scaling": {"rope_type": "linear", "factor": 4.0}, '
    config.write_text("{" + scaling + config.read_text()[1:])
    spec_file = spec_with(tmp_path, target={"engine": "engines/target", "checkpoint": "checkpoint"})
    changes: dict[str, Any] = {"pretrained_config__rotary_scaling": None}
    engine_folder(tmp_path / "engines" / "target", **changes)
    assert sorted(ids(spec_file, "target")) == ["engine-rope-scaling", "engine-vocabulary", "engine-vocabulary-padded"]


def test_a_broken_checkpoint_beside_it_stops_nothing(tmp_path: Path) -> None:
    spec_file = spec_with(tmp_path, target={"engine": "engines/target", "checkpoint": "missing"})
    engine_folder(tmp_path / "engines" / "target")
    assert ids(spec_file, "target") == []


def test_folders_that_are_not_there(tmp_path: Path) -> None:
    spec_file = spec_with(tmp_path)
    assert ids(spec_file, "draft") == ["engine-unreadable"]
    plain = spec_with(tmp_path, target={"checkpoint": "checkpoint"})
    with pytest.raises(UsageError, match="names no engine for the target"):
        inspect_given(plain, "target")


def test_a_spec_that_contradicts_itself(tmp_path: Path) -> None:
    engine_folder(tmp_path / "engines" / "target")
    with pytest.raises(VersionUnsupported):
        inspect_given(spec_with(tmp_path, tensorrt_llm={"version": "1.3.0"}), "target")
    with pytest.raises(SpecError):
        inspect_given(spec_with(tmp_path, tensorrt_llm={"version": "1.1.0", "image": "26.04"}), "target")
