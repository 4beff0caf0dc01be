"""Paths as the server sees them, found on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from trtspec.errors import UsageError

__all__ = ["RootMap", "parse_root_map"]


@dataclass(frozen=True)
class RootMap:
    """Which folder of this machine lies where in the server's container: pairs of (host, container).

    Without pairs the server sees what we see. The longest container path that fits decides.
    """

    pairs: tuple[tuple[Path, PurePosixPath], ...] = ()

    def host(self, seen: str) -> Path | None:
        """Where the server's path `seen` lies here; None for what is no path of a file system (s3://…)."""
        if "://" in seen:
            return None
        path = PurePosixPath(seen)
        fitting = [pair for pair in self.pairs if path.is_relative_to(pair[1])]
        if not fitting:
            return Path(seen)
        host, container = max(fitting, key=lambda pair: len(pair[1].parts))
        return host / path.relative_to(container)


def parse_root_map(texts: tuple[str, ...]) -> RootMap:
    """`HOST=CONTAINER` pairs; UsageError for one that is none, or whose folder here does not exist."""
    return RootMap(tuple(_pair(text) for text in texts))


def _pair(text: str) -> tuple[Path, PurePosixPath]:
    host, sign, container = text.rpartition("=")
    if not sign or not host or not container.startswith("/"):
        fix = "write the folder here, =, and its absolute path in the container: --root-map /data/engines=/engines"
        raise UsageError(f"--root-map {text} is not HOST=CONTAINER", fix=fix)
    if not Path(host).is_dir():
        raise UsageError(f"--root-map {text}: there is no folder {host} here")
    return Path(host), PurePosixPath(container)
