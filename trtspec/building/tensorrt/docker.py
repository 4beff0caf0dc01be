"""The same commands inside NVIDIA's image: `docker run` with every path that they use at the place it has here."""

from __future__ import annotations

import csv
import io
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Container", "Mount", "checkpoint_mounts", "container_name", "docker_run", "reduced_mounts"]

# names only: docker takes their values from its own environment, so that no token stands in a command line
_PASSED = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HF_TOKEN", "HF_HUB_OFFLINE", "HF_ENDPOINT",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
)  # fmt: skip


@dataclass(frozen=True, order=True)
class Mount:
    """A folder or file that a container sees at the path it has here, or at `target`."""

    path: Path
    writable: bool = False
    target: str | None = None

    def option(self) -> str:
        """The value of --mount (paths may hold colons; a comma is quoted as docker's CSV wants it)."""
        fields = [
            "type=bind",
            f"source={self.path}",
            f"target={self.target or self.path}",
            *([] if self.writable else ["readonly"]),
        ]
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(fields)
        return line.getvalue()


@dataclass(frozen=True)
class Container:
    """An image and what its containers see of this machine."""

    image: str
    mounts: tuple[Mount, ...]
    docker: str = "docker"


def container_name(key: str) -> str:
    """A name that no other container has."""
    return f"trtspec-{key}-{uuid.uuid4().hex[:8]}"


def docker_run(
    container: Container, argv: Sequence[str], env: Mapping[str, str], cwd: Path, name: str | None = None
) -> tuple[str, ...]:
    """`argv` as a `docker run`: as this user, with all GPUs, the host's shared memory and NVIDIA's limits.

    --init forwards signals, so that ending docker ends the program; the name lets `docker rm -f` end what is left.
    """
    settings = {"HOME": str(cwd), "USER": "trtspec", **env}
    return (
        container.docker, "run", "--rm", "--init", *(["--name", name] if name else []),
        "--gpus", "all", "--ipc", "host", "--ulimit", "memlock=-1", "--ulimit", "stack=67108864",
        "-u", f"{os.getuid()}:{os.getgid()}",
        *(part for mount in reduced_mounts([*container.mounts, Mount(cwd, writable=True)])
          for part in ("--mount", mount.option())),
        *(part for key, value in settings.items() for part in ("-e", f"{key}={value}")),
        *(part for key in _PASSED if key in os.environ and key not in settings for part in ("-e", key)),
        "-w", str(cwd), container.image, *argv,
    )  # fmt: skip


def checkpoint_mounts(folder: Path) -> list[Mount]:
    """What a container needs to read the checkpoint at `folder.resolve()`: it, and where links in it lead.

    A hub cache's files are links into its blobs, which may be links again: each place is seen where it is here.
    """
    real = folder.resolve()
    places = {real}
    for path in real.iterdir() if real.is_dir() else ():
        places |= {link.parent for link in _links(path)}
        places.add(Path(os.path.realpath(path)).parent)
    return [Mount(path) for path in sorted(places)]


def _links(path: Path) -> list[Path]:
    """Where `path` leads, link by link; what leads in a circle is followed once."""
    found: list[Path] = []
    while path.is_symlink() and path not in found[:-1]:
        path = Path(os.path.normpath(path.parent / path.readlink()))
        found.append(path)
    return found


def reduced_mounts(mounts: Iterable[Mount]) -> list[Mount]:
    """Without those that lie inside another one that allows as much."""
    kept: list[Mount] = []
    for mount in sorted(set(mounts), key=lambda item: (len(item.path.parts), not item.writable, item.path)):
        covering = [other for other in kept if mount.path.is_relative_to(other.path)]
        if not any(other.writable or not mount.writable for other in covering):
            kept.append(mount)
    return sorted(kept, key=lambda item: item.path)
