from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.builders import toy_spec
from tests.verification.pair import sampler, speaker
from tests.wire.fake_triton import FakeTriton
from trtspec.cli.main import cli

CLEAR = (0.0, 0.0, 0.0, 0.0, 5.0, 1.0)
SMALL = ("--requests", "4")
Arms = tuple[str, ...]


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_spec(tmp_path_factory.mktemp("toy")).path


@pytest.fixture(scope="module")
def same() -> Iterator[Arms]:
    with FakeTriton(speaker("left")) as one, FakeTriton(speaker("left")) as other:
        yield "--arm-url", f"baseline={one.url}", "--arm-url", f"speculative={other.url}"


@pytest.fixture(scope="module")
def faulty() -> Iterator[Arms]:
    with FakeTriton(speaker("left", CLEAR)) as one, FakeTriton(speaker("right", CLEAR)) as other:
        yield "--arm-url", f"baseline={one.url}", "--arm-url", f"speculative={other.url}"


def verify(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["verify", *map(str, arguments)])


def test_equal_answers_are_success(spec: Path, same: Arms, tmp_path: Path) -> None:
    result = verify(spec, *same, *SMALL, "--out", tmp_path / "v")
    assert result.exit_code == 0, result.output
    assert "IDENTICAL" in result.stdout
    assert str(tmp_path / "v") in result.stdout.replace("\n", "")


def test_a_fault_is_shown_and_exits_with_6(spec: Path, faulty: Arms, tmp_path: Path) -> None:
    result = verify(spec, *faulty, *SMALL, "--out", tmp_path / "v")
    assert result.exit_code == 6
    for word in ("LOGIC FAULT", "'left'", "'right'", "logic fault?"):
        assert word in result.stdout
    assert "the target's choice was clear" in " ".join(result.stderr.split())


def test_json_and_quiet(spec: Path, faulty: Arms, tmp_path: Path) -> None:
    result = verify(spec, *faulty, *SMALL, "--out", tmp_path / "v", "--output", "json")
    assert result.exit_code == 6
    data = json.loads(result.stdout)
    assert data == json.loads((tmp_path / "v" / "verification.json").read_text())
    assert data["passed"] is False
    quiet = verify(spec, *faulty, *SMALL, "--out", tmp_path / "q", "--output", "quiet")
    assert quiet.stdout == f"{tmp_path / 'q'}\n"


def test_strict_fails_on_what_nothing_explains(spec: Path, tmp_path: Path) -> None:
    with FakeTriton(speaker("left")) as one, FakeTriton(speaker("right")) as other:
        arms = "--a", one.url, "--b", other.url
        assert verify(*arms, *SMALL, "--out", tmp_path / "a").exit_code == 0
        strict = verify(*arms, *SMALL, "--strict", "--out", tmp_path / "b")
    assert strict.exit_code == 6
    assert "UNEXPLAINED" in strict.stdout
    del spec


def test_distributions_as_a_table(spec: Path, tmp_path: Path) -> None:
    with FakeTriton(sampler((5, 3, 2))) as one, FakeTriton(sampler((2, 3, 5))) as other:
        arms = "--arm-url", f"baseline={one.url}", "--arm-url", f"speculative={other.url}"
        sizes = "--temperature", "0.8", "--samples", "80", "--tokens", "2", "--requests", "2"
        result = verify(spec, *arms, *sizes, "--out", tmp_path / "v")
    assert result.exit_code == 6, result.output
    for word in ("DIFFERENT", "all prompts", "distance"):
        assert word in result.stdout


def test_scores_as_a_table(spec: Path, same: Arms, tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text('{"prompt": "which side?", "answer": "left", "match": "contains"}\n')
    result = verify(spec, *same, "--tasks", tasks, "--out", tmp_path / "v")
    assert result.exit_code == 0, result.output
    assert "McNemar" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--samples", "30"), "is for a test of distributions"),
        (("--tasks", "none.jsonl"), "cannot be read"),
        (("--significance", "2"), "no share"),
        (("--a", "http://x:1"), "two servers are compared"),
    ],
)
def test_mistakes_are_told(spec: Path, same: Arms, arguments: tuple[str, ...], message: str) -> None:
    arms = () if "--a" in arguments else same
    result = verify(spec, *arms, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
