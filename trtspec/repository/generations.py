"""Generations: every state of an arm's repository that a command made or found, kept so that one can go back.

They lie in `.generations/<arm>/<number>/` beside the repositories, where Triton does not look: inside a repository it
would take them for models. Small files are copied, so that nobody's edits reach a generation; large ones (engines) are
second names for the same file and take no space.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from trtspec.errors import ArtefactMissing, UsageError
from trtspec.files import atomic_directory, read_json, remove_directory, sweep_partials, write_json, write_text
from trtspec.repository.turns import in_turn

__all__ = ["KEPT", "Generation", "current_generation", "generation_folder", "history", "keep", "rollback"]

KEPT = 10  # generations of an arm
_FOLDER = ".generations"
_RECORD, _FILES, _CURRENT = "generation.json", "repository", "current"
_COPIED = 4 << 20  # bytes up to which a file is copied
_IGNORED = ("__pycache__",)


@dataclass(frozen=True)
class Generation:
    """A kept state. made: when, in UTC; reason: what made it; digest: of names and contents; files: their number."""

    number: int
    made: str
    reason: str
    digest: str
    files: int


def generation_folder(repository: Path) -> Path:
    """Where the generations of an arm's repository lie."""
    return repository.parent / _FOLDER / repository.name


def history(repository: Path) -> tuple[Generation, ...]:
    """What is kept of a repository, oldest first; unreadable records are left out."""
    folder = generation_folder(repository)
    found = (_read(path) for path in sorted(folder.iterdir())) if folder.is_dir() else ()
    return tuple(sorted((item for item in found if item is not None), key=lambda item: item.number))


def current_generation(repository: Path) -> Generation | None:
    """The generation that the repository is now; None when it is none (changed by hand, or never kept)."""
    kept = history(repository)
    digest = _digest(repository) if kept else None
    same = [item for item in kept if item.digest == digest]
    marked = _marked(repository)
    return next((item for item in same if item.number == marked), same[-1] if same else None)


def keep(repository: Path, reason: str) -> Generation | None:
    """Keep the state of a repository under the next number, unless it is the current generation already.

    None when there is nothing to keep. The oldest beyond `KEPT` go.
    """
    if not any(_files(repository)):
        return None
    current = current_generation(repository)
    if current is None:
        current = _snapshot(repository, reason)
    _mark(repository, current.number)
    _prune(repository, current.number)
    return current


def rollback(repository: Path, number: int | None = None) -> tuple[Generation, Generation | None]:
    """Make the repository what it was: (the generation that it is now, the one that it was before).

    Without a number: the last other state before the current one. What is there now is kept first. ArtefactMissing
    when there is nothing to go back to, UsageError for a number that is not kept.
    """
    with in_turn([repository]):
        return _rolled_back(repository, number)


def _rolled_back(repository: Path, number: int | None) -> tuple[Generation, Generation | None]:
    before = keep(repository, "found") if repository.is_dir() else None
    chosen = _numbered(repository, number) if number is not None else _previous(repository, before)
    with atomic_directory(repository) as fresh:
        _copy(generation_folder(repository) / f"{chosen.number:04d}" / _FILES, fresh)
    _mark(repository, chosen.number)
    return chosen, before


def _previous(repository: Path, before: Generation | None) -> Generation:
    kept = history(repository)
    older = [item for item in kept if before is None or (item.number < before.number and item.digest != before.digest)]
    if not older:
        message = "there is no earlier generation to go back to"
        raise ArtefactMissing(message, where=str(repository), fix="trtspec repo --history shows what is kept")
    return older[-1]


def _numbered(repository: Path, number: int) -> Generation:
    kept = history(repository)
    found = next((item for item in kept if item.number == number), None)
    if found is None:
        numbers = ", ".join(str(item.number) for item in kept) or "none"
        raise UsageError(f"generation {number} is not kept; there is {numbers}", where=str(repository))
    return found


def _snapshot(repository: Path, reason: str) -> Generation:
    folder = generation_folder(repository)
    sweep_partials(folder)
    kept = history(repository)
    number = max((item.number for item in kept), default=0) + 1
    made = datetime.now(timezone.utc).isoformat(timespec="seconds")
    generation = Generation(number, made, reason, _digest(repository), len(list(_files(repository))))
    with atomic_directory(folder / f"{number:04d}") as fresh:
        _copy(repository, fresh / _FILES)
        write_json(fresh / _RECORD, {"schema": 1, **asdict(generation)})
    return generation


def _prune(repository: Path, current: int) -> None:
    others = [item for item in history(repository) if item.number != current]
    for item in others[: max(0, len(others) + 1 - KEPT)]:
        remove_directory(generation_folder(repository) / f"{item.number:04d}")


def _read(folder: Path) -> Generation | None:
    try:
        record = read_json(folder / _RECORD)
        return Generation(
            int(record["number"]), str(record["made"]), str(record["reason"]), str(record["digest"]),
            int(record["files"]),
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, json.JSONDecodeError):
        return None


def _marked(repository: Path) -> int | None:
    try:
        return int((generation_folder(repository) / _CURRENT).read_text())
    except (OSError, ValueError):
        return None


def _mark(repository: Path, number: int) -> None:
    if _marked(repository) != number:
        write_text(generation_folder(repository) / _CURRENT, f"{number}\n")


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if (path.is_file() or path.is_symlink()) and not any(part in _IGNORED for part in path.parts):
            yield path


def _digest(folder: Path) -> str:
    """Of names and contents; a large file counts by size and time, a link by where it leads."""
    made = hashlib.sha256()
    for path in _files(folder):
        made.update(f"{path.relative_to(folder).as_posix()}\0".encode())
        if path.is_symlink():
            made.update(os.fsencode(path.readlink()))
        elif (stat := path.stat()).st_size > _COPIED:
            made.update(f"{stat.st_size} {stat.st_mtime_ns}".encode())
        else:
            made.update(hashlib.sha256(path.read_bytes()).digest())
    return made.hexdigest()


def _copy(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for path in _files(source):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_symlink() and path.stat().st_size > _COPIED:
            _link(path, copy)
        else:
            shutil.copy2(path, copy, follow_symlinks=False)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
