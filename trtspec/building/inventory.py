"""What lies under engines/: engines, converted checkpoints, and what killed or failed builds left behind.

::

    engines/<name>/<role>/<key>/            an engine (role: baseline, target, draft)
    engines/<name>/checkpoints/<key>/       a converted checkpoint, shared by roles
    engines/<name>/…/<key>.partial-<pid>-…  what a build is writing, or was when it was killed
    engines/<name>/…/<key>.work             working directory of commands that a person typed
    engines/<name>/…/<key>.failed.log       the log of a build that failed
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trtspec.building.built import is_complete, read_manifest
from trtspec.building.locks import is_locked
from trtspec.errors import UsageError
from trtspec.files import is_abandoned, is_partial, partial_of, read_json
from trtspec.spec import ROLES

__all__ = ["CHECKPOINTS", "Entry", "Kind", "State", "disk_bytes", "find_entry", "freed_bytes", "take_inventory"]

CHECKPOINTS = "checkpoints"
_WORK = ".work"
_LEAST_KEY = 4  # characters of a key that are enough to name it

Kind = Literal["engine", "checkpoint", "partial", "work", "log"]
State = Literal["finished", "damaged", "building", "left over"]
Inode = tuple[int, int]


@dataclass(frozen=True)
class Entry:
    """One thing under engines/.

    name: the spec's name. place: its role, or "checkpoints". key: content key (of what a leftover was to become).
    version: of TensorRT-LLM, or of trtspec for the torch runtime. sm: GPU architecture. changed: Unix time of its
    youngest file. inodes: device and inode → (bytes, links in here, links in all), so that hard links count once.
    """

    kind: Kind
    state: State
    path: Path
    name: str
    place: str
    key: str
    runtime: str | None
    version: str | None
    sm: int | None
    changed: float
    inodes: Mapping[Inode, tuple[int, int, int]] = field(repr=False)

    @property
    def role(self) -> str | None:
        """baseline, target or draft; None for what roles share."""
        return self.place if self.place in ROLES else None

    @property
    def linked(self) -> bool:
        """True when it, or a folder between it and engines/, is a symbolic link."""
        return any(path.is_symlink() for path in (self.path, *self.path.parents[:2]))

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(size for size, _, _ in self.inodes.values())

    @property
    def target(self) -> Path:
        """The folder that it is, or was to become: what a build locks."""
        if self.kind in {"engine", "checkpoint"}:
            return self.path
        return self.path.with_name(self.key)


def take_inventory(root: Path) -> tuple[Entry, ...]:
    """Everything under `root`/engines that trtspec made, by name, place and key; empty without such a folder."""
    return tuple(entry for path, name, place in _places(root / "engines") if (entry := _entry(path, name, place)))


def disk_bytes(entries: Iterable[Entry]) -> int:
    """Bytes that the entries take together; files that several share count once."""
    sizes = {inode: size for entry in entries for inode, (size, _, _) in entry.inodes.items()}
    return sum(sizes.values())


def freed_bytes(entries: Iterable[Entry]) -> int:
    """Bytes that removing the entries frees: files that something else links to stay."""
    here: dict[Inode, int] = {}
    facts: dict[Inode, tuple[int, int]] = {}
    for entry in entries:
        for inode, (size, links, total) in entry.inodes.items():
            here[inode] = here.get(inode, 0) + links
            facts[inode] = (size, total)
    return sum(size for inode, (size, total) in facts.items() if here[inode] >= total)


def find_entry(entries: Iterable[Entry], key: str) -> Entry:
    """The one engine or converted checkpoint whose key begins with `key`; UsageError when none or several do.

    A key that two roles share (they differ in nothing) names the first.
    """
    whole = [entry for entry in entries if entry.kind in {"engine", "checkpoint"}]
    found = [entry for entry in whole if entry.key.startswith(key)]
    if found and len(key) < _LEAST_KEY:
        raise UsageError(f"{key!r} is too short for a key", fix=f"give at least its first {_LEAST_KEY} characters")
    if not found:
        fix = "trtspec engines list shows the keys; the folder of an engine can be given as well"
        raise UsageError(f"{key!r} is neither an engine folder nor the key of an engine here", fix=fix)
    if len({entry.key for entry in found}) > 1:
        listed = ", ".join(f"{entry.key} ({entry.name}, {entry.place})" for entry in found)
        raise UsageError(f"{key!r} could be {listed}", fix="give more of the key")
    return found[0]


def _places(engines: Path) -> Iterator[tuple[Path, str, str]]:
    for folder in _folders(engines):
        for place in _folders(folder):
            if place.name in {*ROLES, CHECKPOINTS}:
                for path in _children(place):
                    yield path, folder.name, place.name


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:
        return []


def _folders(folder: Path) -> list[Path]:
    return [path for path in _children(folder) if path.is_dir()]


def _entry(path: Path, name: str, place: str) -> Entry | None:
    kind = _kind(path, place)
    if kind is None:
        return None
    key = partial_of(path).name.partition(".")[0]
    inodes, changed = _measure(path)
    facts = _facts(path) if kind in {"engine", "checkpoint"} else {"runtime": None, "version": None, "sm": None}
    state = _state(path, kind, path.with_name(key))
    return Entry(kind, state, path, name, place, key, changed=changed, inodes=inodes, **facts)


def _kind(path: Path, place: str) -> Kind | None:
    if is_partial(path):
        return "partial"
    if path.is_dir():
        return "work" if path.name.endswith(_WORK) else "checkpoint" if place == CHECKPOINTS else "engine"
    return "log" if path.name.endswith(".log") else None


def _state(path: Path, kind: Kind, target: Path) -> State:
    if kind in {"engine", "checkpoint"}:
        whole = is_complete(path)
        return "finished" if whole else "building" if is_locked(target) else "damaged"
    running = is_locked(target) or (kind == "partial" and not is_abandoned(path))
    return "building" if running else "left over"


def _measure(path: Path) -> tuple[dict[Inode, tuple[int, int, int]], float]:
    """Inodes of the files at or below `path`, links left out, and the youngest modification time."""
    inodes: dict[Inode, tuple[int, int, int]] = {}
    changed = 0.0
    for file in [path, *path.rglob("*")] if path.is_dir() else [path]:
        try:
            status = os.lstat(file)
        except OSError:  # a running build removed it
            continue
        changed = max(changed, status.st_mtime)
        if file.is_file() and not file.is_symlink():
            inode = (status.st_dev, status.st_ino)
            links = inodes[inode][1] + 1 if inode in inodes else 1
            inodes[inode] = (status.st_size, links, status.st_nlink)
    return inodes, changed


def _facts(folder: Path) -> dict[str, Any]:
    """runtime, version and sm, from the manifest, else from config.json."""
    manifest = read_manifest(folder)
    config = _document(folder / "config.json")
    runtime = manifest.get("runtime") or config.get("runtime") or "tensorrt_llm"
    versions = manifest.get("versions")
    version = versions.get("tensorrt_llm") if isinstance(versions, dict) else config.get("version")
    sm = manifest.get("sm")
    return {
        "runtime": runtime if isinstance(runtime, str) else None,
        "version": version if isinstance(version, str) else None,
        "sm": sm if type(sm) is int else None,
    }


def _document(path: Path) -> dict[str, Any]:
    try:
        data = read_json(path)
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}
