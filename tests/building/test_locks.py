"""Locks that never wait: taken when free, told apart when held."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trtspec.building.locks import is_locked, locked, locked_if_free, sweep_unlocked
from trtspec.errors import BuildError


def test_free_and_held(tmp_path: Path) -> None:
    folder = tmp_path / "engine"
    assert not is_locked(folder)
    assert list(tmp_path.iterdir()) == []  # asking leaves nothing behind
    with locked_if_free(folder) as free:
        assert free
        assert is_locked(folder)
        with locked_if_free(folder) as again:
            assert not again
    assert not is_locked(folder)


def test_sweeping_goes_by_locks_and_not_by_process_numbers(tmp_path: Path) -> None:
    """A build in another container has a process number that means nothing here, or another process."""
    names = [
        f"{key}{rest}" for key in ("aaaa", "bbbb", "cccc") for rest in (".partial-1-x", ".cwd.partial-999999999-x")
    ]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "rank0.engine").write_text("half")
    (tmp_path / "dddd").mkdir()
    with locked(tmp_path / "bbbb", lambda _holder: None), locked(tmp_path / "aaaa", lambda _holder: None):
        sweep_unlocked(tmp_path / "aaaa")
    left = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert left == {"dddd", *(name for name in names if name.startswith("bbbb"))}


def test_the_lock_of_another_process(tmp_path: Path) -> None:
    folder = tmp_path / "engine"
    code = (
        "import sys, pathlib\n"
        "from trtspec.building.locks import locked\n"
        "with locked(pathlib.Path(sys.argv[1]), lambda holder: None):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    assert is_locked(folder)
    with locked_if_free(folder) as free:
        assert not free
    process.kill()
    process.communicate()
    assert not is_locked(folder)


def test_what_cannot_be_locked_counts_as_held(tmp_path: Path) -> None:
    (tmp_path / ".engine.lock").mkdir()
    with locked_if_free(tmp_path / "engine") as free:
        assert not free
    with locked(tmp_path / "other", lambda _holder: None):
        assert is_locked(tmp_path / "other")


def test_readers_share_a_lock_and_keep_writers_out(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    with locked(folder, pytest.fail, shared=True), locked(folder, pytest.fail, shared=True):
        assert is_locked(folder)
        with locked_if_free(folder) as free:
            assert not free
    waited: list[str] = []
    with locked(folder, pytest.fail), pytest.raises(TimeoutError), locked(folder, waited.append, _give_up, shared=True):
        pass
    assert waited[0].startswith(f"process {os.getpid()} since ")


def _give_up() -> None:
    raise TimeoutError


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everything")
def test_the_lock_file_of_another_user_can_be_held(tmp_path: Path) -> None:
    (tmp_path / ".engine.lock").touch(0o444)
    with locked(tmp_path / "engine", pytest.fail):
        assert is_locked(tmp_path / "engine")


@pytest.mark.parametrize("name", ["engines", "engines/big", ".engine.lock"])
def test_where_no_lock_can_lie(tmp_path: Path, name: str) -> None:
    path = tmp_path / "engines" / "big" / "engine" if name.startswith("engines") else tmp_path / "engine"
    path.parent.parent.mkdir(exist_ok=True)
    if name.startswith("engines"):
        (tmp_path / "engines").rmdir() if name == "engines" else None
        (tmp_path / name).write_text("a file")
    else:
        (tmp_path / name).mkdir()
    with pytest.raises(BuildError) as caught, locked(path, pytest.fail):
        pass
    assert caught.value.where
    assert caught.value.fix
