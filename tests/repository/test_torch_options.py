"""The spec's `torch` section: into config.pbtxt, and from there to what the engine does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders import toy_spec
from tests.repository.engines import fake_engines
from trtspec.errors import SpecError, UsageError
from trtspec.repository import generate
from trtspec.spec import SpecFile
from trtspec.torch_runtime.config import Admission, RuntimeOptions

GIVEN: dict[str, Any] = {
    "device": "cpu",
    "threads": 3,
    "exact_rows": True,
    "weights": "int8",
    "kv_tokens": 2048,
    "prompt_chunk": 32,
    "max_waiting": 5,
    "max_waiting_tokens": 999,
}


def parameters(folder: Path, monkeypatch: pytest.MonkeyPatch, **torch: Any) -> dict[str, dict[str, str]]:
    folder.mkdir()
    return leaf_parameters(toy_spec(folder, torch=torch), monkeypatch)


def leaf_parameters(spec_file: SpecFile, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, str]]:
    """Arm/leaf → parameters of its config.pbtxt."""
    from google.protobuf import text_format
    from tritonclient.grpc.model_config_pb2 import ModelConfig

    fake_engines(spec_file, monkeypatch)
    found = {}
    for arm, repository in generate(spec_file).arms.items():
        for model in ("tensorrt_llm", "tensorrt_llm_draft"):
            path = repository / model / "config.pbtxt"
            if path.is_file():
                config: Any = text_format.Parse(path.read_text(), ModelConfig())
                found[f"{arm}/{model}"] = {key: value.string_value for key, value in config.parameters.items()}
    return found


def test_the_confidence_threshold_reaches_the_draft_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "threshold"
    folder.mkdir()
    spec_file = toy_spec(folder, draft={"checkpoint": "draft", "confidence_threshold": 0.4})
    leaves = leaf_parameters(spec_file, monkeypatch)
    given = {name: RuntimeOptions.from_parameters(values).confidence_threshold for name, values in leaves.items()}
    assert given == {"baseline/tensorrt_llm": 0, "speculative/tensorrt_llm": 0, "speculative/tensorrt_llm_draft": 0.4}


def test_every_option_reaches_every_leaf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leaves = parameters(tmp_path / "given", monkeypatch, **GIVEN)
    assert sorted(leaves) == ["baseline/tensorrt_llm", "speculative/tensorrt_llm", "speculative/tensorrt_llm_draft"]
    for values in leaves.values():
        assert RuntimeOptions.from_parameters(values) == RuntimeOptions(
            "cpu", 3, exact_rows=True, weights="int8", limits=Admission(2048, 32, 5, 999)
        )


def test_without_the_section_the_engine_chooses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for values in parameters(tmp_path / "none", monkeypatch).values():
        options = RuntimeOptions.from_parameters(values)
        assert options.limits.kv_tokens == 16384
        assert options == RuntimeOptions(limits=Admission(kv_tokens=16384))


def test_compilation_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for values in parameters(tmp_path / "cuda", monkeypatch, device="cuda:1", compile=True).values():
        options = RuntimeOptions.from_parameters(values)
        assert (options.device, options.compile) == ("cuda:1", True)


@pytest.mark.parametrize(
    ("torch", "problem"),
    [
        ({"device": "gpu"}, "torch.device"),
        ({"weights": "int4"}, "torch.weights"),
        ({"threads": 0}, "torch.threads"),
        ({"device": "cpu", "compile": True}, "torch.compile: only for CUDA, and torch.device is cpu"),
        ({"device": "cuda", "weights": "int8"}, "torch.weights: only for a CPU, and torch.device is cuda"),
        ({"device": "cuda:0", "threads": 2}, "torch.threads: only for a CPU, and torch.device is cuda:0"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, torch: dict[str, Any], problem: str) -> None:
    with pytest.raises(SpecError) as refused:
        toy_spec(tmp_path, torch=torch)
    assert problem in "\n".join(str(found) for found in refused.value.problems)


def test_it_is_for_the_torch_runtime_only(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="torch: only for runtime torch"):
        toy_spec(tmp_path, runtime="tensorrt_llm", torch={"threads": 2})


def test_memory_for_less_than_one_request_is_refused_before_anything_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"torch.kv_tokens is 16, a sequence may have \d+ tokens") as refused:
        parameters(tmp_path / "few", monkeypatch, kv_tokens=16)
    assert "set torch.kv_tokens: " in str(refused.value.fix)
