"""Faults in repositories with our frontend, which NVIDIA's cases do not show."""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.repository.lint.stock import Stock
from tests.repository.tensorrt import layout_spec, tensorrt_spec
from trtspec.repository import generate
from trtspec.repository.lint import lint_repository
from trtspec.repository.lint.known import FRONTEND_OPTIONAL, FRONTEND_PARAMETERS
from trtspec.spec import SpecFile
from trtspec.triton_models.frontend_deployment import Deployment


@pytest.fixture
def own(tmp_path: Path) -> Stock:
    spec_file = layout_spec(tmp_path, "1.2", "tp1-tp1")
    generate(spec_file)
    return Stock(spec_file.repository("speculative"), spec_file.root / "built")


def told(own: Stock) -> dict[str, list[str]]:
    said: dict[str, list[str]] = {}
    for finding in lint_repository(own.folder).findings:
        said.setdefault(finding.id, []).append(f"{finding.level} {finding.message}")
    return said


def undecoupled(config: Any) -> None:
    config.model_transaction_policy.decoupled = False


def apply(own: Stock, model: str, change: Callable[[Any], None]) -> None:
    config = own.config(model)
    change(config)
    own.save(model, config)


def test_a_front_model_that_streams_before_one_that_does_not_names_both(own: Stock) -> None:
    apply(own, "tensorrt_llm", undecoupled)
    (line,) = told(own)["repository-decoupled"]
    assert line.startswith("error tensorrt_llm_bls/config.pbtxt")
    assert "tensorrt_llm_bls is, tensorrt_llm is not, tensorrt_llm_draft is" in line


@pytest.mark.parametrize(
    ("key", "value", "rule", "text"),
    [
        ("request_timeout_second", "5", "repository-parameter-unknown", "warning .*request_timeout_second is not read"),
        ("draft_timeout_seconds", None, "repository-parameter-missing", "error .*draft_timeout_seconds is not there"),
        ("max_seq_len", "8k", "repository-parameter-value", "error .*does not load: invalid literal .*'8k'"),
        ("draft_policy", "adaptiv", "repository-parameter-value", "draft_policy is 'adaptiv', not fixed or schedule"),
        ("acceptance", "logit", "repository-parameter-value", "acceptance is 'logit', not tokens or logits"),
        ("fast_logits", "yes", "repository-parameter-value", "fast_logits is 'yes', not false or true"),
    ],
)
def test_parameters_of_the_frontend(own: Stock, key: str, value: str | None, rule: str, text: str) -> None:
    own.set("tensorrt_llm_bls", **{key: value})
    (line,) = told(own)[rule]
    assert re.search(text, line)


def test_the_frontends_parameters_are_those_that_its_code_reads() -> None:
    source = inspect.getsource(Deployment.from_parameters)
    read = set(re.findall(r'(?:parameters\[|given\[|given\.get\(|_one_of\(given, )"(\w+)"', source))
    assert read == {*FRONTEND_PARAMETERS, *FRONTEND_OPTIONAL}


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("max_draft_length", "9", "max_draft_length 9 is more than max_draft_len of the engine of tensorrt_llm 8"),
        ("max_seq_len", "9000", "max_seq_len 9000 is more than room for a request of the engine of tensorrt_llm 8192"),
        ("vocab_size", "200000", "vocab_size 200000 is more than vocab_size of the engine of tensorrt_llm 128256"),
    ],
)
def test_the_frontend_may_not_promise_more_than_the_engines(own: Stock, key: str, value: str, text: str) -> None:
    own.set("tensorrt_llm_bls", **{key: value})
    assert any(text in line for line in told(own)["repository-engine-limits"])


def test_tensors_that_the_frontend_sends(own: Stock) -> None:
    own.drop("tensorrt_llm", "input", "draft_input_ids")
    own.drop("tensorrt_llm_draft", "input", "exclude_input_in_output")
    lines = told(own)["repository-tensor-missing"]
    assert any("draft_input_ids of tensorrt_llm for every request" in line for line in lines)
    assert any("exclude_input_in_output of tensorrt_llm_draft for every request" in line for line in lines)


def test_a_frontend_written_for_another_release_sends_old_names(own: Stock) -> None:
    own.set("tensorrt_llm_bls", min_tokens_input="min_length")
    lines = told(own)["repository-tensor-missing"]
    assert any("min_length of tensorrt_llm for requests with min_tokens" in line for line in lines)


def test_a_frontend_lacks_a_parameter(own: Stock) -> None:
    own.set("tensorrt_llm_bls", end_ids=None)
    assert any("parameter end_ids is not there" in line for line in told(own)["repository-parameter-missing"])


def test_fractions_count_on_the_gpu_that_both_have(tmp_path: Path) -> None:
    spec_file = layout_spec(tmp_path, "1.2", "shared-gpu")
    generate(spec_file)
    own = Stock(spec_file.repository("speculative"), spec_file.root / "built")
    for model in ("tensorrt_llm", "tensorrt_llm_draft"):
        own.set(model, max_tokens_in_paged_kv_cache="", kv_cache_free_gpu_mem_fraction="0.5")
    (line,) = told(own)["repository-kv-fractions"]
    assert "0.5 here and 0.5 in tensorrt_llm_draft on GPU 0: together 1" in line
    own.set("tensorrt_llm_draft", kv_cache_free_gpu_mem_fraction="0.4")
    assert "repository-kv-fractions" not in told(own)


def test_an_engine_that_went_away_is_an_error(tmp_path: Path) -> None:
    spec_file: SpecFile = tensorrt_spec(tmp_path)
    generate(spec_file)
    shutil.rmtree(spec_file.root / "built" / "draft")
    result = lint_repository(spec_file.repository("speculative"))
    assert [finding.role for finding in result.findings if finding.id == "repository-engine-missing"] == ["draft"]
    assert not result.ok
