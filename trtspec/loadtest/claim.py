"""One load test a folder at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trtspec.errors import UsageError

__all__ = ["claimed"]


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Hold `folder` for the `with` block, also against other processes; UsageError while another one holds it.

    A process that is killed holds nothing any more. Where files cannot be locked (some network disks), nothing is held.
    """
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        message = "another load test is writing there"
        raise UsageError(message, where=str(folder), fix="wait for its end, or another --out") from None
    except OSError:
        pass
    try:
        yield
    finally:
        os.close(descriptor)
