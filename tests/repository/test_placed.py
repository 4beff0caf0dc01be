"""Files that a repository links or copies."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from trtspec.errors import ArtefactMissing
from trtspec.repository.placed import Placed
from trtspec.repository.sync import apply, changes


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "rank0.engine"
    path.write_bytes(b"plan")
    return path


@pytest.mark.parametrize("copied", [False, True])
def test_a_file_is_known_again(tmp_path: Path, source: Path, copied: bool) -> None:
    placed, path = Placed(source, copied), tmp_path / "in" / "rank0.engine"
    assert not placed.is_at(path)
    placed.put(path)
    assert placed.is_at(path)
    assert not Placed(source, not copied).is_at(path)
    assert path.read_bytes() == b"plan"


def test_where_there_are_no_hard_links_a_symbolic_one_is_made(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr("os.link", refuse)
    placed, path = Placed(source, copied=False), tmp_path / "in" / "rank0.engine"
    placed.put(path)
    assert path.is_symlink()
    assert placed.is_at(path)


def test_no_room_for_a_copy_is_one_line(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("shutil.copy2", full)
    folder = tmp_path / "repository"
    with pytest.raises(ArtefactMissing, match="No space left") as caught:
        apply(changes(folder, {"model/1/rank0.engine": Placed(source, copied=True)}))
    assert "serving.engines" in (caught.value.fix or "")
    assert not folder.exists()


def test_the_list_of_files_names_no_place(tmp_path: Path, source: Path) -> None:
    folder = tmp_path / "repository"
    apply(changes(folder, {"rank0.engine": Placed(source, copied=True), "a.txt": b"a"}))
    assert str(tmp_path) not in (folder / ".trtspec-files.json").read_text()
    assert not changes(folder, {"rank0.engine": Placed(source, copied=True), "a.txt": b"a"}).any


def test_a_changed_copy_is_made_again(tmp_path: Path, source: Path) -> None:
    folder, wanted = tmp_path / "repository", {"rank0.engine": Placed(source, copied=True)}
    apply(changes(folder, wanted))
    (folder / "rank0.engine").write_bytes(b"edit")
    assert changes(folder, wanted).written == ("rank0.engine",)
    apply(changes(folder, wanted))
    assert (folder / "rank0.engine").read_bytes() == source.read_bytes() == b"plan"
