"""`trtspec distill` as a user runs it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.builders import tiny_checkpoint
from tests.training.toys import prompt_file
from trtspec.cli.distill import _checked, _further_name, _written
from trtspec.cli.main import cli
from trtspec.spec import Spec, SpecFile

TOY = ("--max-new-tokens", "8", "--layers", "2", "--hidden", "64", "--heads", "2", "--threads", "1")
SPEC = """\
version: 1
name: toy
target: {checkpoint: ./target}
draft: {checkpoint: ./drafts/toy}
speculation: {draft_length: 3}
build: {max_seq_len: 256}
"""


def command_of(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "trtspec", "distill", *arguments]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("distill")
    tiny_checkpoint(folder / "target", hidden=64, layers=3, heads=2, kv_heads=2)
    prompt_file(folder / "prompts.jsonl")
    (folder / "trtspec.yaml").write_text(SPEC)
    return folder


def refused(folder: Path, *arguments: str, code: int = 2) -> dict[str, Any]:
    """The error of a run in this process that does not get as far as loading anything."""
    spec = str(folder / "trtspec.yaml")
    done = CliRunner().invoke(cli, ["distill", spec, "--output", "json", *arguments])
    assert done.exit_code == code, done.output
    error: dict[str, Any] = json.loads(done.stdout)["error"]
    return error


def test_a_draft_is_made_and_checked(folder: Path) -> None:
    arguments = ("--prompts", "prompts.jsonl", "--epochs", "2", *TOY, "--output", "json")
    done = subprocess.run(command_of(*arguments), cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["check"]["ok"] is True
    assert data["draft"] == str(folder / "drafts" / "toy")
    assert {one["draft_length"] for one in data["acceptance"]} >= {1, 3, 4}
    assert "held-out acceptance" in done.stderr
    again = subprocess.run(
        command_of(*arguments[:-2]), cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    last = again.stdout.splitlines()[-1]
    assert last.startswith("on its held-out prompts: trtspec loadtest --prompts ./drafts/toy.work/answers/")
    assert (folder / shlex.split(last)[-1]) == Path(data["held_out_file"])
    assert Path(data["held_out_file"]).is_file()
    readme = (folder / "drafts" / "toy" / "README.md").read_text()
    assert "trtspec distill --prompts prompts.jsonl" in readme
    assert "--threads" not in readme


def test_an_interrupted_run_says_that_it_goes_on(folder: Path) -> None:
    work = folder / "interrupted"
    arguments = ("--prompts", "prompts.jsonl", "--steps", "1000000", "--patience", "999999", *TOY)
    running = subprocess.Popen(
        command_of(*arguments, "--out", str(folder / "never"), "--work", str(work)),
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 300
        while not list(work.rglob("shard-*")):
            assert running.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        os.kill(running.pid, signal.SIGINT)
        _, said = running.communicate(timeout=300)
    finally:
        running.kill()  # where it has ended, nothing
        running.communicate()
    assert running.returncode == 130
    assert "the same command goes on from there" in said
    assert not (folder / "never").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--from-target", "2", "--layers", "3"), "say different things about the draft's shape"),
        (("--try", "2x64", "--from", "x"), "say different things about the draft's shape"),
        (("--try", "2x64,2xbig"), "'2xbig' is no shape"),
        (("--hidden", "100", "--heads", "3"), "the draft's shape is impossible"),
        (("--answers", "logged"), "the built-in prompts carry no answers"),
        (("--categories", "poetry"), "no such category: poetry"),
        (("--prompts", "nowhere.jsonl"), "no such file"),
        (("--budget", "soon"), "is no time"),
        (("--try", "2x64,2x64"), "different words"),
        (("--device", "cuda:7"), "CUDA"),
        (("--seed", str(1 << 64)), "more than 64 bits hold"),
        (("--repeat", "2"), "the built-in prompts do not end"),
        (("--prompts", "prompts.jsonl", "--answers", "logged", "--repeat", "2"), "the same every time"),
        (("--prompts", "nowhere", "--answers", "logged"), "no such file"),
    ],
)
def test_what_cannot_be_meant_is_refused(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in refused(folder, *arguments)["message"]


@pytest.mark.parametrize(("method", "checked_as"), [("ngram", "model"), ("lookup", "lookup"), ("model", "model")])
def test_the_new_draft_is_checked_whatever_drafts_in_the_spec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, checked_as: str
) -> None:
    checkpoint = {} if method == "ngram" else {"checkpoint": "./other"}
    data = {"name": "toy", "target": {"checkpoint": "./target"}, "draft": {"method": method, **checkpoint}}
    seen: list[SpecFile] = []
    monkeypatch.setattr("trtspec.rules.check_pair", seen.append)
    _checked(SpecFile(tmp_path / "trtspec.yaml", Spec.model_validate(data)), tmp_path / "made")
    assert seen[0].spec.draft.method == checked_as
    assert seen[0].checkpoint("draft") == tmp_path / "made"


def test_a_missing_target_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "trtspec.yaml").write_text(SPEC)
    error = refused(tmp_path, "--measure", "none", code=3)
    assert error["type"] == "CheckpointError"
    assert str(tmp_path / "target") in error["where"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.000123456789, "0.000123456789"), (28800.0, "28800"), (("a", "b"), "a,b"), (3, "3"), (Path("x/y"), "x/y")],
)
def test_the_command_to_remake_a_draft_has_every_digit(value: object, text: str) -> None:
    assert _written(value) == text


def test_a_file_to_measure_with_is_named() -> None:
    assert _further_name("more/mine.jsonl") == "prompts of mine.jsonl"
    assert _further_name(None) == _further_name("builtin") == "load-test prompts"
