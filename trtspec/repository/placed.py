"""Files that are too large to be held in memory: another name for a file elsewhere, or a copy of it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from trtspec.errors import ArtefactMissing

__all__ = ["Content", "Placed"]


@dataclass(frozen=True)
class Placed:
    """A file that a repository takes from `source`; a link beside it (`../weights`) stays one in a copy.

    Copied files keep the time of their source, by which they are known again. Others are hard links, which need no
    space and work inside a container that sees the repository alone; where the file system has none (another disk, a
    file of somebody else), symbolic links.
    """

    source: Path
    copied: bool

    @property
    def mark(self) -> str:
        """What the list of generated files says about it: its size; a path would not survive a move."""
        return f"size:{self.source.stat().st_size}"

    @property
    def _beside(self) -> bool:
        return self.copied and self.source.is_symlink() and not self.source.readlink().is_absolute()

    def describe(self, name: str) -> str:
        """One line for a diff."""
        return f"b/{name} {'copied from' if self.copied else 'linked to'} {self.source}\n"

    def is_at(self, path: Path) -> bool:
        """True when `path` is this file already: the same file, or a copy of the same size and time."""
        try:
            if self._beside:
                return path.is_symlink() and path.readlink() == self.source.readlink()
            linked = path.samefile(self.source)
            if not self.copied or linked:
                return linked and not self.copied
            one, other = path.stat(), self.source.stat()
        except OSError:
            return False
        return (one.st_size, one.st_mtime_ns) == (other.st_size, other.st_mtime_ns)

    def put(self, path: Path) -> None:
        """Make `path` this file; ArtefactMissing when it cannot be (no space, no right to read it)."""
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            if self.copied:
                shutil.copy2(self.source, path, follow_symlinks=not self._beside)
            else:
                _link(self.source.resolve(), path)
        except OSError as error:
            reason = error.strerror or str(error)
            fix = "set serving.engines: reference, or make room" if self.copied else "set serving.engines: copy"
            raise ArtefactMissing(f"{self.source} could not be put there: {reason}", where=str(path), fix=fix) from None


Content = bytes | Placed


def _link(source: Path, path: Path) -> None:
    try:
        os.link(source, path)
    except OSError:
        path.symlink_to(source)
