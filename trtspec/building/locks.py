"""Locks on what a build makes: the second of two builds of one thing waits, and can say for whom."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

from trtspec.errors import BuildError
from trtspec.files import discard, is_partial, partial_of

__all__ = ["is_locked", "locked", "locked_if_free", "sweep_unlocked"]

_POLL = 0.2


@contextlib.contextmanager
def locked(
    path: Path, waiting: Callable[[str], None], check: Callable[[], None] = lambda: None, *, shared: bool = False
) -> Iterator[int]:
    """Hold the lock for the folder `path`, alone or (`shared`) with others that read it; yields its file descriptor.

    The system releases it when the last process that has it open is gone. While another holds it `waiting` is told
    once who, and `check` is called now and then (it may raise to give up). BuildError where nothing can be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _open(path)
    except OSError as error:
        fix = "make it a folder that this user can write, or put the spec's folder elsewhere"
        raise BuildError(str(error.strerror), where=str(error.filename), fix=fix) from error
    try:
        _acquire(descriptor, waiting, check, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        _sign(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked_if_free(path: Path) -> Iterator[bool]:
    """Hold the lock for the folder `path` and yield True, or yield False where another holds it; never waits."""
    try:
        descriptor = _open(path)
    except OSError:  # another user's folder, or a disk that cannot be written: not ours to touch
        yield False
        return
    try:
        yield _try(descriptor)
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """True while a running build holds the lock for the folder `path`; makes no lock file."""
    lock = path.with_name(f".{path.name}.lock")
    if not lock.exists():
        return False
    with locked_if_free(path) as free:
        return not free


def sweep_unlocked(path: Path) -> None:
    """Remove what killed builds left beside the folder `path`, whose lock the caller holds.

    What a build holds the lock for stays. Process numbers would not tell: it may run in another container.
    """
    for found in path.parent.iterdir():
        if not is_partial(found):
            continue
        owner = path.with_name(partial_of(found).name.partition(".")[0])
        with contextlib.nullcontext(True) if owner == path else locked_if_free(owner) as free:
            if free:
                discard(found)


def _open(path: Path) -> int:
    lock = path.with_name(f".{path.name}.lock")
    try:
        return os.open(lock, os.O_CREAT | os.O_RDWR, 0o666)
    except OSError:
        if not lock.is_file():
            raise
        return os.open(lock, os.O_RDONLY)  # another user's, or on a read-only disk: held all the same, but not signed


def _acquire(descriptor: int, waiting: Callable[[str], None], check: Callable[[], None], kind: int) -> None:
    told = False
    while not _try(descriptor, kind):
        if not told:
            waiting(_holder(descriptor))
            told = True
        check()
        time.sleep(_POLL)


def _try(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(descriptor: int) -> None:
    """Write who holds it, for those that wait."""
    since = datetime.now(timezone.utc).isoformat(timespec="seconds")
    with contextlib.suppress(OSError):  # a full disk: the lock holds all the same
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} since {since}".encode(), 0)


def _holder(descriptor: int) -> str:
    with contextlib.suppress(OSError):
        return os.pread(descriptor, 200, 0).decode(errors="replace") or "another process"
    return "another process"
