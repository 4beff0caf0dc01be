"""Version folders and generations with the real server."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

from tests.serving.toy import ToyDeployment, build_toy
from trtspec.repository import VersionChoice, generate
from trtspec.repository.generations import rollback
from trtspec.repository.lint import lint_repository
from trtspec.spec import SpecFile

pytestmark = pytest.mark.triton

MODEL = "tensorrt_llm_bls"


def served(spec_file: SpecFile) -> tuple[list[str], list[str]]:
    """The versions of the frontend that the server offers, and the answer of each."""
    deployment = ToyDeployment(spec_file)
    try:
        base = f"http://{deployment.server('speculative').http_url}/v2/models/{MODEL}"
        with urllib.request.urlopen(base, timeout=20) as answer:
            versions: list[str] = json.load(answer)["versions"]
        return versions, [generated(f"{base}/versions/{version}") for version in versions]
    finally:
        deployment.close()


def generated(url: str) -> str:
    body = json.dumps({"text_input": "the quick brown", "max_tokens": 12, "temperature": 0.0}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{url}/generate", body), timeout=60) as answer:
        text: str = json.load(answer)["text_output"]
    return text


def test_two_versions_side_by_side_and_back_to_one(tmp_path: Path) -> None:
    spec_file = build_toy(tmp_path)
    generate(spec_file, ["speculative"], VersionChoice(new=True, serve=(1, 2)))
    assert lint_repository(spec_file.repository("speculative")).ok
    versions, texts = served(spec_file)
    assert versions == ["1", "2"]
    assert texts[0] == texts[1] != ""
    rollback(spec_file.repository("speculative"))
    assert served(spec_file) == (["1"], texts[:1])
