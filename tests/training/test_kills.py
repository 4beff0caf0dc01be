"""A distillation that SIGKILL ends, anywhere, and that is started again gives the draft of one that was not killed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.training.killing import run_killed


def draft_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "draft").iterdir()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    assert run_killed(folder, "never", 0) == 0
    return folder


def test_killed_once_in_the_middle_of_training(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole / "target", tmp_path / "target")
    assert run_killed(tmp_path, "step", 7) == -9
    assert not (tmp_path / "draft").exists()
    assert run_killed(tmp_path, "never", 0) == 0
    assert draft_files(tmp_path) == draft_files(whole)


def test_killed_again_and_again_everywhere(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole / "target", tmp_path / "target")
    places = [
        ("write", 2),  # the answers are being written
        ("step", 1),  # nothing of the training is on disk
        ("step", 4),
        ("write", 2),  # a state of the training is being written
        ("rename", 3),  # it is written, and not yet in its place
        ("folder", 1),  # the draft is whole, and not yet in its place
    ]
    for place, count in places:
        assert run_killed(tmp_path, place, count) == -9, place
        assert not (tmp_path / "draft").exists()
    assert run_killed(tmp_path, "never", 0) == 0
    assert draft_files(tmp_path) == draft_files(whole)
