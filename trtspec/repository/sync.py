"""Bringing a folder to a wanted set of files: whole or not at all, unchanged files untouched, foreign ones kept."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from trtspec.files import atomic_directory, json_text, read_json, write_bytes
from trtspec.repository.placed import Content, Placed

__all__ = ["Changes", "apply", "changes", "generated_names", "is_generated", "unified_diff"]

# Lists what was generated, so that a file that is no longer wanted can be told from one that somebody added.
_MANIFEST = ".trtspec-files.json"
_IGNORED = ("__pycache__",)
_MOST_SHOWN = 16 << 20  # bytes of a file that a diff reads


@dataclass(frozen=True)
class Changes:
    """What differs between a folder and the wanted files; paths relative to the folder, sorted."""

    folder: Path
    wanted: Mapping[str, Content]
    written: tuple[str, ...]  # new or different
    removed: tuple[str, ...]  # generated earlier, not wanted any more
    foreign: tuple[str, ...]  # never generated; left alone

    @property
    def unchanged(self) -> int:
        """Number of wanted files that are there already, byte for byte (the manifest is not counted)."""
        return len(self.wanted) - len(self.written)

    @property
    def any(self) -> bool:
        """Whether the folder has to be touched."""
        return bool(self.written or self.removed) or not _manifest_current(self.folder, self.wanted)


def changes(folder: Path, wanted: Mapping[str, Content]) -> Changes:
    """Compare `folder` (which need not exist) with `wanted`, relative path → content."""
    present = set(_files(folder))
    ours = set(_manifest(folder))
    return Changes(
        folder=folder,
        wanted=wanted,
        written=tuple(sorted(name for name, data in wanted.items() if not _is_current(folder / name, data))),
        removed=tuple(sorted((ours & present) - set(wanted))),
        foreign=tuple(sorted(present - ours - set(wanted))),
    )


def apply(change: Changes) -> None:
    """Make the folder as wanted in one rename; files that stay keep their inode and so their mtime."""
    if not change.any:
        return
    with atomic_directory(change.folder) as fresh:
        _link_tree(change.folder, fresh, skip={*change.written, *change.removed, _MANIFEST})
        for name in change.written:
            _write(fresh / name, change.wanted[name])
        write_bytes(fresh / _MANIFEST, _manifest_bytes(change.wanted))


def is_generated(folder: Path) -> bool:
    """True for a folder that `apply` made; False for one that somebody wrote by hand."""
    return (folder / _MANIFEST).is_file()


def generated_names(folder: Path) -> list[str]:
    """The files that `apply` made in a folder, as it listed them; empty for one that somebody wrote by hand."""
    return _manifest(folder)


def unified_diff(change: Changes) -> str:
    """What `apply` would do, as a unified diff (files that are no text: one line each)."""
    parts = [_file_diff(change.folder, name, change.wanted[name]) for name in change.written]
    parts += [_file_diff(change.folder, name, b"") for name in change.removed]
    return "".join(parts)


def _file_diff(folder: Path, name: str, new: Content) -> str:
    if isinstance(new, Placed):
        return new.describe(name)
    if _size(folder / name) > _MOST_SHOWN:
        return f"a/{name} {'is removed' if not new else 'differs'}\n"
    old = _content(folder / name)
    before = f"a/{name}" if old is not None else "/dev/null"
    after = f"b/{name}" if new else "/dev/null"
    try:
        old_lines, new_lines = _lines(old or b""), _lines(new)
    except UnicodeDecodeError:
        return f"{before} and {after} differ\n"
    return "".join(difflib.unified_diff(old_lines, new_lines, before, after))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _lines(data: bytes) -> list[str]:
    return data.decode().splitlines(keepends=True)


def _files(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        ignored = any(part in _IGNORED for part in name.parts) or str(name) == _MANIFEST
        if not ignored and (path.is_file() or path.is_symlink()):
            yield name.as_posix()


def _is_current(path: Path, data: Content) -> bool:
    return data.is_at(path) if isinstance(data, Placed) else _content(path) == data


def _write(path: Path, data: Content) -> None:
    if isinstance(data, Placed):
        data.put(path)
    else:
        write_bytes(path, data)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _manifest(folder: Path) -> list[str]:
    try:
        names = list(read_json(folder / _MANIFEST)["files"])
    except (OSError, json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError):
        return []
    return [name for name in names if _inside(name)]


def _inside(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and not PurePosixPath(name).is_absolute() and ".." not in parts


def _manifest_bytes(wanted: Mapping[str, Content]) -> bytes:
    hashes = {name: _mark(wanted[name]) for name in sorted(wanted)}
    return json_text({"schema": 1, "files": hashes}).encode()


def _mark(data: Content) -> str:
    return data.mark if isinstance(data, Placed) else hashlib.sha256(data).hexdigest()


def _manifest_current(folder: Path, wanted: Mapping[str, Content]) -> bool:
    return _content(folder / _MANIFEST) == _manifest_bytes(wanted)


def _link_tree(source: Path, target: Path, skip: set[str]) -> None:
    for name in _files(source):
        if name in skip:
            continue
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        _link(source / name, target / name)


def _link(source: Path, target: Path) -> None:
    """A second name for the same file; a copy where the file system has no hard links."""
    with contextlib.suppress(OSError):
        os.link(source, target, follow_symlinks=False)
        return
    shutil.copy2(source, target, follow_symlinks=False)
