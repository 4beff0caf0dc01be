"""What lies under engines/: found, sized with links counted once, and who uses it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.builders import toy_spec
from tests.building.inspection.engines import engine_folder
from trtspec.building import build_engines
from trtspec.building.inventory import Entry, disk_bytes, find_entry, freed_bytes, take_inventory
from trtspec.building.locks import locked
from trtspec.building.usage import find_specs, used_entries
from trtspec.errors import SpecError, UsageError
from trtspec.files import remove_directory, write_bytes
from trtspec.repository.generations import generation_folder, keep
from trtspec.spec import SpecFile

DEAD = 2**22 + 1  # above the largest process number that Linux gives


def tensorrt_engine(root: Path, role: str, key: str, *, name: str = "big", **manifest: Any) -> Path:
    """A finished TensorRT engine as a build leaves it."""
    folder = engine_folder(root / "engines" / name / role / key)
    files = {path.name: {"size": path.stat().st_size, "sha256": None} for path in folder.iterdir()}
    document = {"schema": 1, "runtime": "tensorrt_llm", "kind": "engine", "role": role, "key": key, "files": files}
    versions = {"versions": {"tensorrt_llm": "1.2.1", "image": None}, "sm": 90}
    (folder / "manifest.json").write_text(json.dumps({**document, **versions, **manifest}))
    return folder


def converted_checkpoint(root: Path, key: str, *, name: str = "big") -> Path:
    """A finished converted checkpoint."""
    folder = root / "engines" / name / "checkpoints" / key
    folder.mkdir(parents=True)
    (folder / "rank0.safetensors").write_bytes(b"w" * 1000)
    files = {"rank0.safetensors": {"size": 1000, "sha256": None}}
    manifest = {"schema": 1, "kind": "checkpoint", "key": key, "files": files, "versions": {"tensorrt_llm": "1.2.1"}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def by_path(root: Path) -> dict[Path, Entry]:
    return {entry.path.relative_to(root / "engines"): entry for entry in take_inventory(root)}


def users(spec_file: SpecFile) -> dict[str, tuple[str, ...]]:
    entries = take_inventory(spec_file.root)
    usage = used_entries(spec_file.root, entries, find_specs(spec_file.root))
    return {str(entry.path.relative_to(spec_file.root / "engines")): usage.of(entry) for entry in entries}


def test_nothing_there(tmp_path: Path) -> None:
    assert take_inventory(tmp_path) == ()
    (tmp_path / "engines").write_text("a file")
    assert take_inventory(tmp_path) == ()


def test_engines_of_both_runtimes(tmp_path: Path) -> None:
    torch = build_engines(toy_spec(tmp_path))
    big = tensorrt_engine(tmp_path, "target", "aaaa0000aaaa0000")
    checkpoint = converted_checkpoint(tmp_path, "bbbb0000bbbb0000")
    entries = {entry.path: entry for entry in take_inventory(tmp_path)}
    assert set(entries) == {big, checkpoint, *(engine.path for engine in torch)}
    found = entries[big]
    assert (found.kind, found.state, found.name, found.role) == ("engine", "finished", "big", "target")
    assert (found.runtime, found.version, found.sm, found.key) == ("tensorrt_llm", "1.2.1", 90, "aaaa0000aaaa0000")
    assert (entries[checkpoint].kind, entries[checkpoint].role) == ("checkpoint", None)
    assert entries[torch[0].path].runtime == "torch"
    assert entries[torch[0].path].size == torch[0].size_bytes


def test_shared_weights_count_once(tmp_path: Path) -> None:
    baseline, target, _ = build_engines(toy_spec(tmp_path))
    weights = (baseline.path / "model.safetensors").stat().st_size
    entries = {entry.path: entry for entry in take_inventory(tmp_path)}
    both = [entries[baseline.path], entries[target.path]]
    assert disk_bytes(both) == sum(entry.size for entry in both) - weights
    assert freed_bytes(both[:1]) == both[0].size - weights
    assert freed_bytes(both) == disk_bytes(both)


def test_links_are_no_size(tmp_path: Path) -> None:
    folder = tensorrt_engine(tmp_path, "draft", "cccc0000cccc0000")
    before = by_path(tmp_path)[Path("big/draft/cccc0000cccc0000")].size
    (folder / "link").symlink_to(folder / "rank0.engine")
    os.link(folder / "rank0.engine", folder / "twice")
    entry = by_path(tmp_path)[Path("big/draft/cccc0000cccc0000")]
    assert entry.size == before
    assert freed_bytes([entry]) == before


@pytest.mark.parametrize("damage", ["rank0.engine", "manifest.json", "config.json"])
def test_a_damaged_engine(tmp_path: Path, damage: str) -> None:
    folder = tensorrt_engine(tmp_path, "target", "aaaa0000aaaa0000")
    (folder / damage).write_bytes(b"\xff\x00")
    [entry] = take_inventory(tmp_path)
    assert entry.state == "damaged"


def test_what_builds_leave_and_what_they_are_writing(tmp_path: Path) -> None:
    place = tmp_path / "engines" / "big" / "target"
    for name in (f"k1.partial-{DEAD}-aa", f"k2.partial-{os.getpid()}-bb", f"k3.cwd.partial-{DEAD}-cc", "k4.work"):
        (place / name).mkdir(parents=True)
    (place / "k5.failed.log").write_text("died")
    (place / ".k1.lock").write_text("")
    (place / "notes.txt").write_text("mine")
    (tmp_path / "engines" / "README.md").write_text("mine")
    found = {entry.path.name: (entry.kind, entry.state, entry.key) for entry in take_inventory(tmp_path)}
    assert found == {
        f"k1.partial-{DEAD}-aa": ("partial", "left over", "k1"),
        f"k2.partial-{os.getpid()}-bb": ("partial", "building", "k2"),
        f"k3.cwd.partial-{DEAD}-cc": ("partial", "left over", "k3"),
        "k4.work": ("work", "left over", "k4"),
        "k5.failed.log": ("log", "left over", "k5"),
    }


def test_a_lock_tells_that_a_build_runs(tmp_path: Path) -> None:
    place = tmp_path / "engines" / "big" / "target"
    (place / f"k1.partial-{DEAD}-aa").mkdir(parents=True)
    (place / "k1.log").write_text("compiling")
    with locked(place / "k1", lambda _holder: None):
        assert {entry.state for entry in take_inventory(tmp_path)} == {"building"}
    assert {entry.state for entry in take_inventory(tmp_path)} == {"left over"}


def test_keys_by_their_beginning(tmp_path: Path) -> None:
    tensorrt_engine(tmp_path, "target", "aaaa1111")
    tensorrt_engine(tmp_path, "draft", "aaaa2222")
    entries = take_inventory(tmp_path)
    assert find_entry(entries, "aaaa1").role == "target"
    with pytest.raises(UsageError, match="could be"):
        find_entry(entries, "aaaa")
    for short in ("aaa", ""):
        with pytest.raises(UsageError, match="too short"):
            find_entry(entries, short)
    for unknown in ("bbb", "bbbb"):
        with pytest.raises(UsageError, match="neither an engine folder nor the key"):
            find_entry(entries, unknown)


# who uses what


def test_the_engines_of_a_spec_as_it_is_now(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    old = {engine.role: engine.path for engine in build_engines(spec_file)}
    text = spec_file.path.read_text().replace("draft_length: 4", "draft_length: 12")
    spec_file.path.write_text(text)
    found = users(spec_file)
    assert found[f"toy/target/{old['target'].name}"] == ()
    assert found[f"toy/baseline/{old['baseline'].name}"] == ("trtspec.yaml",)
    assert found[f"toy/draft/{old['draft'].name}"] == ("trtspec.yaml",)


def test_every_spec_of_the_folder_counts(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    build_engines(spec_file)
    (tmp_path / "second.yml").write_text(spec_file.path.read_text())
    (tmp_path / "values.yaml").write_text("a: 1")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe")
    assert set(users(spec_file).values()) == {("second.yml", "trtspec.yaml")}


def test_given_engines_are_in_use(tmp_path: Path) -> None:
    folder = tensorrt_engine(tmp_path, "target", "aaaa0000aaaa0000", name="elsewhere")
    spec = "name: other\nruntime: tensorrt_llm\ntarget: {engine: engines/elsewhere/target/aaaa0000aaaa0000}\n"
    (tmp_path / "other.yaml").write_text(spec + "draft: {engine: nowhere}\n")
    entries = take_inventory(tmp_path)
    usage = used_entries(tmp_path, entries, find_specs(tmp_path))
    assert usage.of(entries[0]) == ("other.yaml",)
    assert entries[0].path == folder


def test_a_generated_repository_uses_its_engines(tmp_path: Path) -> None:
    folder = tensorrt_engine(tmp_path, "target", "aaaa0000aaaa0000")
    model = tmp_path / "model_repo" / "big" / "speculative" / "tensorrt_llm"
    model.mkdir(parents=True)
    (model / "config.pbtxt").write_text(f'parameters {{ key: "engine_dir" value {{ string_value: "{folder}" }} }}')
    entries = take_inventory(tmp_path)
    assert used_entries(tmp_path, entries, find_specs(tmp_path)).of(entries[0]) == ("repository big/speculative",)


def test_a_generation_that_one_can_go_back_to_uses_its_engines(tmp_path: Path) -> None:
    old, new = (tensorrt_engine(tmp_path, "target", key) for key in ("aaaa0000aaaa0000", "bbbb0000bbbb0000"))
    repository = tmp_path / "model_repo" / "big" / "speculative"
    for folder in (old, new):
        write_bytes(repository / "tensorrt_llm" / "config.pbtxt", f'# "{folder}"'.encode())
        keep(repository, "repo")
    entries = take_inventory(tmp_path)
    usage = used_entries(tmp_path, entries, find_specs(tmp_path))
    assert {entry.path: usage.of(entry) for entry in entries} == {
        old: ("a generation of big/speculative",),
        new: ("repository big/speculative", "a generation of big/speculative"),
    }
    remove_directory(generation_folder(repository))
    assert used_entries(tmp_path, entries, find_specs(tmp_path)).users == {new: ("repository big/speculative",)}


@pytest.mark.parametrize("linked", ["the engine's folder", "its files"])
def test_a_repository_with_links_to_engines_uses_them(tmp_path: Path, linked: str) -> None:
    """As `serving.engines: link` makes them where the file system has no hard links; config.pbtxt names the link."""
    folder = tensorrt_engine(tmp_path, "target", "aaaa0000aaaa0000")
    version = tmp_path / "model_repo" / "big" / "speculative" / "tensorrt_llm" / "1"
    version.parent.mkdir(parents=True)
    if linked == "its files":
        version.mkdir()
        (version / "rank0.engine").symlink_to(folder / "rank0.engine")
    else:
        version.symlink_to(folder)
    (version.parent / "config.pbtxt").write_text("# /models/tensorrt_llm/1")
    entries = take_inventory(tmp_path)
    assert used_entries(tmp_path, entries, find_specs(tmp_path)).of(entries[0]) == ("repository big/speculative",)


def test_what_cannot_be_told_is_no_permission(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    build_engines(spec_file)
    (tmp_path / "target" / "config.json").unlink()
    entries = take_inventory(tmp_path)
    usage = used_entries(tmp_path, entries, find_specs(tmp_path))
    assert all("trtspec.yaml" in (usage.doubt(entry) or "") for entry in entries)
    (tmp_path / "broken.yaml").write_text("name: big\ntarget: {checkpont: a}\ndraft: {checkpoint: b}\n")
    specs = find_specs(tmp_path)
    assert specs.unreadable == {"broken.yaml": "big"}
    tensorrt_engine(tmp_path, "target", "aaaa0000aaaa0000")
    big = [entry for entry in take_inventory(tmp_path) if entry.name == "big"]
    assert used_entries(tmp_path, big, specs).doubt(big[0]) == "broken.yaml cannot be read"


def test_a_spec_without_engines_is_not_examined(tmp_path: Path) -> None:
    """Its checkpoints, perhaps hundreds of gigabytes, are not hashed for it."""
    spec_file = toy_spec(tmp_path)
    assert take_inventory(tmp_path) == ()
    assert used_entries(tmp_path, (), find_specs(tmp_path)).unknown == {}
    assert not (spec_file.root / "engines").exists()


def test_a_given_spec_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(SpecError):
        find_specs(tmp_path, [tmp_path / "missing.yaml"])
