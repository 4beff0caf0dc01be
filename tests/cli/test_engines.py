"""`trtspec engines` as a user types it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.builders import toy_spec
from tests.building.inspection.engines import engine_folder
from tests.building.test_inventory import converted_checkpoint, tensorrt_engine
from trtspec.building import build_engines
from trtspec.cli.main import cli
from trtspec.spec import SpecFile


def run(*arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["engines", *arguments], input=typed)


def data(*arguments: str) -> Any:
    result = run(*arguments, "--output", "json")
    return json.loads(result.stdout)


@pytest.fixture
def toy(tmp_path: Path) -> SpecFile:
    """A built toy pair whose target was built a second time for another draft length."""
    spec_file = toy_spec(tmp_path)
    build_engines(spec_file)
    spec_file.path.write_text(spec_file.path.read_text().replace("draft_length: 4", "draft_length: 12"))
    return spec_file


def test_list(toy: SpecFile) -> None:
    result = run("list", str(toy.path))
    assert result.exit_code == 0
    assert result.stdout.count("trtspec.yaml") == 2
    listed = data("list", "--root", str(toy.root))
    assert listed["schema"] == 1
    assert [(entry["role"], entry["state"], entry["used_by"]) for entry in listed["entries"]] == [
        ("baseline", "finished", ["trtspec.yaml"]),
        ("draft", "finished", ["trtspec.yaml"]),
        ("target", "finished", []),
    ]
    assert listed["total_bytes"] < sum(entry["size_bytes"] for entry in listed["entries"])
    assert run("list", str(toy.path), "--output", "quiet").stdout.splitlines() == [
        entry["path"] for entry in listed["entries"]
    ]


def test_list_without_engines(tmp_path: Path) -> None:
    result = run("list", "--root", str(tmp_path))
    assert result.exit_code == 0
    assert "no engines under" in result.stdout
    assert data("list", "--root", str(tmp_path))["entries"] == []


def test_list_says_what_it_does_not_know(toy: SpecFile) -> None:
    (toy.root / "draft" / "config.json").write_text("{")
    result = run("list", str(toy.path))
    assert result.exit_code == 0
    assert "use unknown: trtspec.yaml" in result.stdout


def test_show_by_key_and_by_folder(toy: SpecFile) -> None:
    [folder] = [path for path in toy.engines("target").iterdir() if path.is_dir()]
    by_key = run("show", folder.name[:6], "--root", str(toy.root))
    assert by_key.exit_code == 0
    assert "trtspec 0.1.0 (torch runtime)" in by_key.stdout
    assert "nothing wrong found" in by_key.stdout
    shown = data("show", str(folder))
    assert shown["role"] == "target"
    assert shown["config"]["max_draft_len"] == 8
    assert shown["manifest"]["key"] == folder.name
    assert shown["findings"] == []


def test_show_a_foreign_engine_with_a_fault(tmp_path: Path) -> None:
    folder = engine_folder(tmp_path / "engine", build_config__plugin_config__use_paged_context_fmha=False)
    result = run("show", str(folder))
    assert result.exit_code == 4
    assert "TensorRT-LLM 1.2.1" in result.stdout
    assert "paged context FMHA is off in the target engine" in result.stdout
    shown = data("show", str(folder))
    assert shown["ok"] is False
    assert shown["findings"][0]["id"] == "engine-paged-context-fmha"
    assert data("show", str(folder), "--role", "draft")["role"] == "draft"


def test_show_holds_an_engine_against_its_manifest(tmp_path: Path) -> None:
    folder = tensorrt_engine(tmp_path, "target", "aaaa0000", options={"dtype": "float16", "tp": 2, "pp": 1})
    assert [found["id"] for found in data("show", str(folder))["findings"]] == ["engine-mapping", "engine-dtype"]


def test_a_narrow_terminal_shows_keys_that_can_be_typed(toy: SpecFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = data("list", "--root", str(toy.root))["entries"]
    lines = run("list", "--root", str(toy.root)).stdout.splitlines()
    assert lines[0].strip() == "toy"
    assert max(map(len, lines[:5])) <= 80
    for entry in listed:
        assert any(line.startswith(entry["role"]) and entry["key"][:12] in line for line in lines)


def test_a_key_of_one_letter_is_too_short(toy: SpecFile) -> None:
    key = data("list", "--root", str(toy.root))["entries"][0]["key"]
    refused = run("show", key[:3], "--root", str(toy.root))
    assert refused.exit_code == 2
    assert "at least its first 4 characters" in refused.stderr


def test_show_what_is_none(tmp_path: Path) -> None:
    assert run("show", "ffff", "--root", str(tmp_path)).exit_code == 2
    (tmp_path / "empty").mkdir()
    empty = run("show", str(tmp_path / "empty"))
    assert empty.exit_code == 4
    assert "is empty" in empty.stderr
    checkpoint = converted_checkpoint(tmp_path, "bbbb0000")
    (checkpoint / "config.json").write_text('{"architecture": "LlamaForCausalLM", "mapping": {}}')
    assert "converted checkpoint" in run("show", "bbbb", "--root", str(tmp_path)).stderr


def test_prune_asks_and_removes(toy: SpecFile, monkeypatch: pytest.MonkeyPatch) -> None:
    [folder] = [path for path in toy.engines("target").iterdir() if path.is_dir()]
    dry = data("prune", str(toy.path), "--dry-run")
    assert [item["path"] for item in dry["removed"]] == [str(folder)]
    assert folder.is_dir()
    unconfirmed = run("prune", str(toy.path))
    assert unconfirmed.exit_code == 2
    assert "--yes" in unconfirmed.stderr
    assert run("prune", str(toy.path), "--output", "json").exit_code == 2
    assert folder.is_dir()
    done = run("prune", str(toy.path), "--yes")
    assert done.exit_code == 0
    assert "1 removed" in done.stdout
    assert not folder.exists()
    assert "nothing to remove" in run("prune", str(toy.path)).stdout


def test_prune_on_a_terminal(toy: SpecFile, monkeypatch: pytest.MonkeyPatch) -> None:
    [folder] = [path for path in toy.engines("target").iterdir() if path.is_dir()]
    monkeypatch.setattr("trtspec.cli.engines._is_terminal", lambda: True)
    refused = run("prune", str(toy.path), typed="n\n")
    assert refused.exit_code == 1
    assert "nothing was removed" in refused.stderr
    assert folder.is_dir()
    assert run("prune", str(toy.path), typed="y\n").exit_code == 0
    assert not folder.exists()


def test_prune_keeps_the_names_of_other_specs(toy: SpecFile) -> None:
    other = tensorrt_engine(toy.root, "target", "aaaa0000")
    assert all("/toy/" in item["path"] for item in data("prune", str(toy.path), "--dry-run")["removed"])
    everything = data("prune", "--root", str(toy.root), "--dry-run")["removed"]
    assert str(other) in [item["path"] for item in everything]


@pytest.mark.parametrize(("age", "removed"), [("1s", 1), ("2h", 1), ("7d", 0), ("1.5w", 0)])
def test_prune_by_age(toy: SpecFile, age: str, removed: int) -> None:
    [folder] = [path for path in toy.engines("target").iterdir() if path.is_dir()]
    for path in [folder, *folder.rglob("*")]:
        status = path.lstat()
        os.utime(path, (status.st_mtime - 86400,) * 2, follow_symlinks=False)
    assert len(data("prune", str(toy.path), "--dry-run", "--older-than", age)["removed"]) == removed


@pytest.mark.parametrize("arguments", [("--older-than", "soon"), ("--older-than", "-1d"), ("--root", "/nowhere")])
def test_prune_refuses_odd_arguments(arguments: tuple[str, ...]) -> None:
    assert run("prune", "--dry-run", *arguments).exit_code == 2


def test_specs_of_two_folders(tmp_path: Path) -> None:
    specs = [toy_spec(tmp_path / name).path for name in ("a", "b")]
    result = run("list", *map(str, specs))
    assert result.exit_code == 2
    assert "one folder" in result.stderr


def test_help_lists_the_commands() -> None:
    result = run("--help")
    assert result.exit_code == 0
    for name in ("list", "show", "prune"):
        assert f"  {name} " in result.stdout
        assert "Examples:" in run(name, "--help").stdout


def test_the_reference_has_every_command_of_the_group() -> None:
    from trtspec.cli.reference import cli_reference

    text = cli_reference()
    for name in ("list", "show", "prune"):
        assert f"## trtspec engines {name}\n" in text
        assert f"Usage: trtspec engines {name} " in text
