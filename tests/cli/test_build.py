"""`trtspec build` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from tests.builders import toy_spec
from trtspec.cli.main import cli


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["build", *arguments])


def test_build_then_cached(tmp_path: Path) -> None:
    spec = str(toy_spec(tmp_path).path)
    first = run(spec)
    assert first.exit_code == 0
    assert first.stdout.count(" built ") == 3
    second = run(spec)
    assert second.stdout.count(" cached ") == 3
    data = json.loads(run(spec, "--role", "draft", "--output", "json").stdout)
    assert [(engine["role"], engine["cached"]) for engine in data["engines"]] == [("draft", True)]
    quiet = run(spec, "--role", "draft", "--output", "quiet")
    assert quiet.stdout.strip() == data["engines"][0]["path"]
    forced = json.loads(run(spec, "--role", "draft", "--force", "--output", "json").stdout)
    assert not forced["engines"][0]["cached"]


def test_dry_run_writes_no_engine(tmp_path: Path) -> None:
    spec = str(toy_spec(tmp_path).path)
    data = json.loads(run(spec, "--dry-run", "--output", "json").stdout)
    assert [step["role"] for step in data["steps"]] == ["baseline", "target", "draft"]
    keys = {"role", "stage", "argv", "env", "cwd", "inputs", "outputs", "cached"}
    assert all(set(step) == keys for step in data["steps"])
    assert not (tmp_path / "engines" / "toy").exists()


def test_without_a_second_model_there_is_no_draft_to_build(tmp_path: Path) -> None:
    spec = str(toy_spec(tmp_path, draft={"method": "ngram"}).path)
    done = run(spec)
    assert done.exit_code == 0, done.output
    assert done.stdout.count(" built ") == 2
    assert "next: trtspec repo" in done.stdout
    assert not (tmp_path / "engines" / "toy" / "draft").exists()
    refused = run(spec, "--role", "draft")
    assert refused.exit_code == 2
    assert "draft.method is ngram" in refused.stderr


def test_exit_codes(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    weights = tmp_path / "draft" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    broken = run(str(spec_file.path))
    assert broken.exit_code == 3
    assert "model.safetensors" in broken.stderr
    assert run(str(tmp_path / "missing.yaml")).exit_code == 2
