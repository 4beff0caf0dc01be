"""Folders brought to a wanted state: whole, stable, and without touching what is not ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from trtspec.repository.sync import apply, changes, unified_diff

FILES = {"a/config.pbtxt": b"name: 'a'\n", "a/1/model.py": b"x = 1\n"}


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    apply(changes(folder, FILES))
    return folder


def test_what_is_wanted_is_there(folder: Path) -> None:
    for name, data in FILES.items():
        assert (folder / name).read_bytes() == data


def test_a_second_time_nothing_is_touched(folder: Path) -> None:
    before = snapshot(folder), folder.stat().st_ino
    change = changes(folder, FILES)
    assert (change.written, change.removed, change.unchanged, change.any) == ((), (), 2, False)
    apply(change)
    assert (snapshot(folder), folder.stat().st_ino) == before


def test_only_what_changed_is_written(folder: Path) -> None:
    before = snapshot(folder)
    change = changes(folder, {**FILES, "a/1/model.py": b"x = 2\n"})
    assert (change.written, change.unchanged) == (("a/1/model.py",), 1)
    apply(change)
    after = snapshot(folder)
    assert after["a/config.pbtxt"] == before["a/config.pbtxt"]
    assert after["a/1/model.py"][0] == b"x = 2\n"


def test_stale_files_go_and_foreign_ones_stay(folder: Path) -> None:
    notes = folder / "a" / "notes.txt"
    notes.write_text("mine")
    cache = folder / "a" / "1" / "__pycache__"
    cache.mkdir()
    (cache / "model.cpython-311.pyc").write_bytes(b"\x00")
    change = changes(folder, {"a/config.pbtxt": FILES["a/config.pbtxt"]})
    assert (change.removed, change.foreign) == (("a/1/model.py",), ("a/notes.txt",))
    apply(change)
    assert notes.read_text() == "mine"
    assert not (folder / "a" / "1").exists()


def test_a_foreign_link_is_kept_as_a_link(folder: Path) -> None:
    link = folder / "a" / "weights"
    link.symlink_to("/somewhere/else")
    apply(changes(folder, {**FILES, "b": b"new"}))
    assert link.is_symlink()
    assert link.readlink() == Path("/somewhere/else")


def test_a_manifest_that_points_outside_removes_nothing(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "precious"
    outside.write_text("x")
    (folder / ".trtspec-files.json").write_text('{"files": {"../precious": "0", "/etc/hosts": "0"}}')
    change = changes(folder, FILES)
    assert change.removed == ()
    apply(change)
    assert outside.exists()


def test_a_broken_manifest_is_written_again(folder: Path) -> None:
    manifest = folder / ".trtspec-files.json"
    good = manifest.read_bytes()
    manifest.write_text("{")
    apply(changes(folder, FILES))
    assert manifest.read_bytes() == good


def test_a_write_that_fails_leaves_the_old_state(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = snapshot(folder)

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device", str(path))

    change = changes(folder, {"a/config.pbtxt": b"other"})
    monkeypatch.setattr("trtspec.repository.sync.write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        apply(change)
    assert snapshot(folder) == before
    assert list(folder.parent.iterdir()) == [folder]


def test_the_diff_shows_what_would_change(folder: Path) -> None:
    wanted = {"a/1/model.py": b"x = 2\n", "b/new.bin": b"\xff\xfe", "c.txt": b"c\n"}
    diff = unified_diff(changes(folder, wanted))
    assert "-x = 1\n+x = 2\n" in diff
    assert "--- /dev/null\n+++ b/c.txt\n" in diff
    assert "/dev/null and b/b/new.bin differ\n" in diff
    assert "--- a/a/config.pbtxt\n+++ /dev/null\n" in diff
    assert unified_diff(changes(folder, FILES)) == ""
