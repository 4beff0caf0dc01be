"""Repositories that trtspec writes have nothing that lint finds."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from tests.builders import toy_spec
from tests.repository.engines import fake_engines
from tests.repository.tensorrt import LAYOUTS, VERSIONS, layout_spec, tensorrt_spec
from trtspec.repository import VersionChoice, generate
from trtspec.repository.lint import LintResult, RootMap, lint_repository
from trtspec.spec import ARMS, SpecFile


def found(result: LintResult) -> list[str]:
    return [f"{finding.level} {finding.id}: {finding.message}" for finding in result.findings]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("version", VERSIONS)
def test_repositories_with_engines_are_clean(tmp_path: Path, version: str, layout: str) -> None:
    spec_file = layout_spec(tmp_path, version, layout)
    generate(spec_file)
    for arm in ARMS:
        result = lint_repository(spec_file.repository(arm))
        assert found(result) == []
        kinds = {model["name"]: model["kind"] for model in result.to_json()["models"]}
        assert kinds["tensorrt_llm_bls"] == "frontend"
        assert kinds["tensorrt_llm"] == "leaf"
        assert {model["tensorrt_llm"] for model in result.to_json()["models"]} == {None, VERSIONS[version]}


@pytest.mark.parametrize("engines", ["link", "copy"])
def test_a_repository_to_be_moved_is_looked_at_through_its_place_in_the_container(tmp_path: Path, engines: str) -> None:
    spec_file = tensorrt_spec(tmp_path, serving={"engines": engines, "repository_root": "/models"})
    generate(spec_file)
    folder = spec_file.repository("speculative")
    roots = RootMap(((folder, PurePosixPath("/models")),))
    assert found(lint_repository(folder, roots=roots)) == []
    lost = lint_repository(folder)
    assert [finding.id for finding in lost.findings if finding.level == "error"] == ["repository-engine-missing"] * 2


@pytest.fixture
def torch_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SpecFile:
    spec_file = toy_spec(tmp_path)
    fake_engines(spec_file, monkeypatch)
    return spec_file


def test_repositories_of_the_torch_runtime_are_clean(torch_spec: SpecFile) -> None:
    generate(torch_spec)
    generate(torch_spec, versions=VersionChoice(new=True, serve=(1, 2)))
    for arm in ARMS:
        result = lint_repository(torch_spec.repository(arm))
        assert {finding.id for finding in result.findings} == {"repository-shared-memory"}
        assert result.ok
