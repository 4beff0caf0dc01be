"""`trtspec init` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.builders import tiny_checkpoint
from trtspec.cli.main import cli
from trtspec.spec import load_spec


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["init", *arguments])


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_file_loads_and_the_next_step_is_told() -> None:
    done = run()
    assert done.exit_code == 0, done.output
    assert done.stdout == "wrote trtspec.yaml\n"
    assert done.stderr.endswith("then trtspec check\n")
    assert load_spec(Path("trtspec.yaml")).spec.name == "my-pair"


def test_an_existing_file_is_not_replaced_without_force() -> None:
    Path("trtspec.yaml").write_text("mine")
    done = run()
    assert done.exit_code == 2
    assert "is there already" in done.stderr
    assert "--force" in done.stderr
    assert Path("trtspec.yaml").read_text() == "mine"
    assert run("--force").exit_code == 0
    assert load_spec(Path("trtspec.yaml"))


def test_folders_typed_here_are_named_as_the_file_sees_them(tmp_path: Path) -> None:
    target, draft = tiny_checkpoint(tmp_path / "Big-1.0"), tiny_checkpoint(tmp_path / "small")
    done = run("specs/pair.yaml", "--target", "Big-1.0", "--draft", str(draft), "--output", "json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["path"] == "specs/pair.yaml"
    spec_file = load_spec(Path("specs/pair.yaml"))
    assert spec_file.spec.name == "big-1.0"
    assert spec_file.checkpoint("target").resolve() == target
    assert spec_file.checkpoint("draft") == draft
    assert CliRunner().invoke(cli, ["check", "specs/pair.yaml"]).exit_code == 0


def test_drafts_from_the_text_need_no_second_folder(tmp_path: Path) -> None:
    tiny_checkpoint(tmp_path / "big")
    done = run("--target", "big", "--draft-method", "ngram")
    assert done.exit_code == 0, done.output
    assert done.stderr.endswith("next: trtspec check\n")
    spec = load_spec(Path("trtspec.yaml")).spec
    assert (spec.draft.method, spec.draft.checkpoint) == ("ngram", None)
    assert CliRunner().invoke(cli, ["check"]).exit_code == 0
    refused = run("--force", "--draft", "small", "--draft-method", "ngram")
    assert refused.exit_code == 2
    assert "no second model" in refused.stderr
    assert run("--force", "--draft", "small", "--draft-method", "lookup").exit_code == 0
    assert load_spec(Path("trtspec.yaml")).spec.draft.method == "lookup"


def test_runtime_and_gpu_are_written_into_the_spec() -> None:
    done = run("--runtime", "tensorrt_llm", "--gpu", "h100", "--count", "4")
    assert done.exit_code == 0, done.output
    spec = load_spec(Path("trtspec.yaml")).spec
    assert spec.hardware is not None
    assert (spec.runtime, spec.hardware.gpu, spec.hardware.count) == ("tensorrt_llm", "H100-80GB-SXM", 4)


def test_a_gpu_that_is_not_known_and_a_count_of_nothing_are_refused() -> None:
    assert "is not known" in run("--gpu", "H1000").stderr
    assert run("--count", "2").exit_code == 2
    assert not Path("trtspec.yaml").exists()


def test_a_folder_as_path_gets_the_usual_file_name() -> None:
    Path("here").mkdir()
    assert run("here", "--output", "quiet").stdout == "here/trtspec.yaml\n"


def test_a_name_that_cannot_be_one_is_refused_before_anything_is_written() -> None:
    done = run("--name", "a/b")
    assert done.exit_code == 2
    assert "name" in done.stderr
    assert not Path("trtspec.yaml").exists()


def test_a_place_that_cannot_be_written() -> None:
    Path("file").write_text("")
    done = run("file/trtspec.yaml")
    assert done.exit_code == 2
    assert "cannot be written" in done.stderr
