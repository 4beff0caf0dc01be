"""Verifications of the real Triton server and a tiny pair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.serving.toy import ToyDeployment
from trtspec.errors import VerificationFailed
from trtspec.progress import SilentReporter
from trtspec.verification import VerifyResult, verify, verify_options
from trtspec.verification.schema import closed_verification_schema

pytestmark = pytest.mark.triton

TEXTS = (
    "hello world, how are you today?",
    "def add(a, b):\n    return",
    "the quick brown fox",
    "speculative decoding drafts tokens with a small model",
    "ünïcödé 🙂",
    "x",
)


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(json.dumps({"id": f"p{n}", "prompt": text}) for n, text in enumerate(TEXTS)))
    return path


def check(toy: ToyDeployment, out: Path, scheme: str = "", **values: Any) -> VerifyResult:
    own: dict[str, Any] = {
        name: values.pop(name) for name in ("samples", "tokens", "tasks", "strict") if name in values
    }
    urls = {
        arm: f"http://{toy.server(arm).http_url}" if scheme == "http" else toy.server(arm).grpc_url
        for arm in ("baseline", "speculative")
    }
    urls.update(values.pop("instead", {}))
    options = verify_options(toy.spec_file, own, urls=urls, out=out, **values)
    result = verify(toy.spec_file, options, SilentReporter())
    jsonschema.validate(result.data, closed_verification_schema())
    return result


def test_greedy_answers_are_the_same(toy_deployment: ToyDeployment, tmp_path: Path, prompts: Path) -> None:
    result = check(
        toy_deployment, tmp_path / "v", prompts=str(prompts), max_tokens=24, concurrency=(1, 4), draft_length=6
    )
    assert result.failure is None
    assert result.data["equality"]["compared"] == 12
    assert result.data["verdict_code"] in {"IDENTICAL", "NEAR-TIES"}


def test_samples_are_of_one_distribution_over_http(
    toy_deployment: ToyDeployment, tmp_path: Path, prompts: Path
) -> None:
    sizes: dict[str, Any] = {"temperature": 1.0, "samples": 60, "requests": 2, "tokens": 3}
    result = check(toy_deployment, tmp_path / "v", "http", prompts=str(prompts), **sizes)
    assert result.failure is None, result.data["verdict"]
    section = result.data["distribution"]
    assert (section["unit"], section["samples"]) == ("tokens", 240)
    lines = [json.loads(line) for line in (tmp_path / "v" / "samples.jsonl").read_text().splitlines()]
    assert {len(line["ids"]) for line in lines} <= {1, 2, 3}


def test_another_model_in_the_place_of_an_arm_is_found(
    toy_deployment: ToyDeployment, tmp_path: Path, prompts: Path, other_model: ToyDeployment
) -> None:
    """Greedy answers differ where the choice was clear, and samples are of another distribution."""
    instead = {"speculative": other_model.server("baseline").grpc_url}
    greedy = check(toy_deployment, tmp_path / "greedy", prompts=str(prompts), max_tokens=12, instead=instead)
    assert isinstance(greedy.failure, VerificationFailed)
    assert greedy.data["verdict_code"] == "LOGIC FAULT"
    faults = [place for place in greedy.data["equality"]["divergences"] if place["verdict"] == "logic fault?"]
    assert all(place["arithmetic"] == "float32" and place["logit_gap"] > 0.01 for place in faults)
    sizes: dict[str, Any] = {"temperature": 1.0, "samples": 60, "requests": 2, "tokens": 2}
    sampled = check(toy_deployment, tmp_path / "sampled", prompts=str(prompts), instead=instead, **sizes)
    assert isinstance(sampled.failure, VerificationFailed)
    assert sampled.data["verdict_code"] == "DIFFERENT"


@pytest.fixture(scope="module")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A target with other weights and the same tokenizer."""
    from tests.builders import tiny_checkpoint, toy_spec
    from trtspec.building import build_engines
    from trtspec.repository import generate
    from trtspec.serving import free_ports

    folder = tmp_path_factory.mktemp("other")
    http, grpc, metrics = (port for _, port in free_ports().items())
    spec_file = toy_spec(folder, serving={"http_port": http, "grpc_port": grpc, "metrics_port": metrics})
    tiny_checkpoint(spec_file.checkpoint("target"), seed=99)
    build_engines(spec_file, reporter=SilentReporter())
    generate(spec_file)
    deployment = ToyDeployment(spec_file)
    try:
        yield deployment
    finally:
        deployment.close()


def test_scores_are_the_same(toy_deployment: ToyDeployment, tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    lines = [
        {"id": f"t{n}", "prompt": text, "answer": ".", "match": "regex", "max_tokens": 8}
        for n, text in enumerate(TEXTS)
    ]
    tasks.write_text("\n".join(map(json.dumps, lines)))
    result = check(toy_deployment, tmp_path / "v", tasks=tasks)
    assert result.failure is None
    assert result.data["tasks"]["right"] == {"baseline": 6, "speculative": 6}
    assert result.data["equality"]["compared"] == 6
