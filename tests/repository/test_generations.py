"""Generations: what is kept, how one goes back, what is never lost."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.serving.toy import build_toy
from trtspec.errors import ArtefactMissing, UsageError
from trtspec.repository import VersionChoice, generate
from trtspec.repository.generations import (
    KEPT,
    current_generation,
    generation_folder,
    history,
    keep,
    rollback,
)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "pair" / "speculative"
    folder.mkdir(parents=True)
    return folder


def state(repository: Path, text: str) -> int:
    """Bring the repository to a state as a command does, and keep it."""
    keep(repository, "found")
    (repository / "model").mkdir(exist_ok=True)
    (repository / "model" / "config.pbtxt").write_text(text)
    kept = keep(repository, "repo")
    assert kept is not None
    return kept.number


def text(repository: Path) -> str:
    return (repository / "model" / "config.pbtxt").read_text()


def numbers(repository: Path) -> list[int]:
    return [item.number for item in history(repository)]


def test_every_state_gets_a_number_once(repository: Path) -> None:
    assert keep(repository, "found") is None
    assert [state(repository, "one"), state(repository, "two"), state(repository, "two")] == [1, 2, 2]
    assert [(item.number, item.reason, item.files) for item in history(repository)] == [(1, "repo", 1), (2, "repo", 1)]
    assert current_generation(repository) == history(repository)[-1]


def test_rolling_back_and_forth(repository: Path) -> None:
    for word in ("one", "two", "three"):
        state(repository, word)
    now, before = rollback(repository)
    assert (now.number, before and before.number, text(repository)) == (2, 3, "two")
    rollback(repository)
    assert text(repository) == "one"
    rollback(repository, 3)
    assert text(repository) == "three"
    assert numbers(repository) == [1, 2, 3]
    assert state(repository, "four") == 4


def test_a_state_that_comes_again_is_the_one_last_marked(repository: Path) -> None:
    for word in ("one", "two", "one"):
        state(repository, word)
    assert numbers(repository) == [1, 2]
    assert rollback(repository, 2)[0].number == 2


def test_edits_by_hand_are_kept_before_anything_replaces_them(repository: Path) -> None:
    state(repository, "one")
    state(repository, "two")
    (repository / "model" / "config.pbtxt").write_text("by hand")
    (repository / "note.txt").write_text("mine")
    assert current_generation(repository) is None
    now, before = rollback(repository)
    assert before is not None
    assert (now.number, before.number, before.reason, text(repository)) == (2, 3, "found", "two")
    assert not (repository / "note.txt").exists()
    rollback(repository, 3)
    assert (text(repository), (repository / "note.txt").read_text()) == ("by hand", "mine")


def test_edits_in_the_repository_do_not_reach_what_is_kept(repository: Path) -> None:
    state(repository, "one")
    with (repository / "model" / "config.pbtxt").open("a") as stream:
        stream.write(" and more")
    rollback(repository, 1)
    assert text(repository) == "one"


def test_large_files_take_no_space_twice_and_links_stay_links(repository: Path) -> None:
    engine = repository / "model" / "1" / "rank0.engine"
    engine.parent.mkdir(parents=True)
    engine.write_bytes(b"")
    os.truncate(engine, 5 << 20)
    (repository / "model" / "1" / "link").symlink_to("/engines/rank0.engine")
    state(repository, "one")
    kept = generation_folder(repository) / "0001" / "repository" / "model" / "1"
    assert (kept / "rank0.engine").samefile(engine)
    assert (kept / "link").readlink() == Path("/engines/rank0.engine")
    state(repository, "two")
    rollback(repository)
    assert engine.stat().st_size == 5 << 20
    assert (engine.parent / "link").is_symlink()


def test_the_oldest_go_and_never_the_current_one(repository: Path) -> None:
    for number in range(KEPT + 4):
        state(repository, f"state {number}")
    assert numbers(repository) == list(range(5, KEPT + 5))
    rollback(repository, 5)
    for number in range(3):
        state(repository, f"later {number}")
    assert len(numbers(repository)) == KEPT
    assert max(numbers(repository)) == KEPT + 7


def test_nothing_to_go_back_to(repository: Path) -> None:
    with pytest.raises(ArtefactMissing, match="no earlier generation"):
        rollback(repository)
    state(repository, "one")
    with pytest.raises(ArtefactMissing, match="no earlier generation"):
        rollback(repository)
    with pytest.raises(UsageError, match="generation 9 is not kept; there is 1"):
        rollback(repository, 9)
    assert text(repository) == "one"


def test_a_repository_that_was_deleted_comes_back(repository: Path) -> None:
    state(repository, "one")
    state(repository, "two")
    (repository / "model" / "config.pbtxt").unlink()
    (repository / "model").rmdir()
    repository.rmdir()
    assert rollback(repository)[0].number == 2
    assert text(repository) == "two"


def test_what_a_killed_command_left_is_no_generation(repository: Path) -> None:
    state(repository, "one")
    folder = generation_folder(repository)
    (folder / "0002").mkdir()
    (folder / "0002" / "generation.json").write_text("{")
    (folder / "0003.partial-1-aaaa").mkdir()
    assert numbers(repository) == [1]
    assert state(repository, "two") == 2
    assert rollback(repository)[0].number == 1


def test_commands_that_change_one_repository_take_turns(tmp_path: Path) -> None:
    """None takes the number of another's generation, or calls another's half a hand-made state."""
    spec_file = build_toy(tmp_path)
    repository = spec_file.repository("speculative")
    before = len(history(repository))
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(generate, spec_file, ["speculative"], VersionChoice(new=True)) for _ in range(4)]
        for job in jobs:
            job.result(timeout=120)
    made = history(repository)[before:]
    assert [item.number for item in made] == list(range(before + 1, before + 5))
    assert {item.reason for item in made} == {"repo"}
    assert len({item.digest for item in made}) == 4
