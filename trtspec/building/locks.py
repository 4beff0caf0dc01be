"""Locks on what a build makes: the second of two builds of one thing waits, and can say for whom."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

__all__ = ["is_locked", "locked", "locked_if_free"]

_POLL = 0.2


@contextlib.contextmanager
def locked(path: Path, waiting: Callable[[str], None], check: Callable[[], None] = lambda: None) -> Iterator[int]:
    """Hold the exclusive lock for the folder `path`; yields its file descriptor.

    The system releases it when the last process that has it open is gone. While another holds it `waiting` is told
    once who, and `check` is called now and then (it may raise to give up).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_CREAT | os.O_RDWR, 0o644)
    try:
        _acquire(descriptor, waiting, check)
        _sign(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked_if_free(path: Path) -> Iterator[bool]:
    """Hold the lock for the folder `path` and yield True, or yield False where another holds it; never waits."""
    try:
        descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_CREAT | os.O_RDWR, 0o644)
    except OSError:  # another user's, or a disk that cannot be written: not ours to touch
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


def _acquire(descriptor: int, waiting: Callable[[str], None], check: Callable[[], None]) -> None:
    told = False
    while not _try(descriptor):
        if not told:
            waiting(_holder(descriptor))
            told = True
        check()
        time.sleep(_POLL)


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
