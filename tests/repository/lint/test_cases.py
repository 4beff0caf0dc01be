from __future__ import annotations

from pathlib import Path

import pytest

from tests.repository.lint.cases import REPOSITORY_CASES, RepositoryCase
from tests.repository.lint.stock import stock_repository
from trtspec.repository.lint import lint_repository

VERSIONS = ("0.19", "0.20", "0.21", "1.0", "1.1", "1.2")


@pytest.mark.parametrize("case", REPOSITORY_CASES, ids=lambda case: f"{case.rule_id}: {case.text[:40]}")
def test_a_rule_finds_its_case(tmp_path: Path, case: RepositoryCase) -> None:
    result = case.lint(tmp_path)
    said = [finding for finding in result.findings if finding.id == case.rule_id]
    told = [(finding.level, finding.message) for finding in said]
    assert any(level == case.level and case.text in message for level, message in told), told
    assert result.ok == (not any(finding.level == "error" for finding in result.findings))
    others = {finding.id for finding in result.findings} - {case.rule_id, "repository-shared-memory"}
    assert others == set(case.also)
    assert all(finding.fix for finding in said if finding.level != "note")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("draft", [True, False])
def test_the_templates_filled_in_right_are_found_right(tmp_path: Path, version: str, draft: bool) -> None:
    result = lint_repository(stock_repository(tmp_path, version, draft=draft).folder)
    assert {finding.id for finding in result.findings} == {"repository-shared-memory"}
    assert result.verdict == "the repository can be served: 1 note"
    kinds = {model["name"]: model["kind"] for model in result.to_json()["models"]}
    leaves = ["tensorrt_llm", "tensorrt_llm_draft"] if draft else ["tensorrt_llm"]
    assert kinds == {
        "ensemble": "ensemble",
        "preprocessing": "preprocessing",
        "postprocessing": "postprocessing",
        "tensorrt_llm_bls": "bls",
        **dict.fromkeys(leaves, "leaf"),
    }
