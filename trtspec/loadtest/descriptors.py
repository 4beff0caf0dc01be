"""Open files: each request in flight needs one, and a process may have so many."""

from __future__ import annotations

from trtspec.errors import UsageError

__all__ = ["allow_files", "places", "require_files"]

# what a process has open besides its connections: files, pipes to others, connections that are being closed
_OTHERS = 64


def allow_files() -> int | None:
    """Raise this process's limit of open files, and that of those it starts, as far as it may; None: no limit."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    except (OSError, ValueError):  # macOS takes no limit that is none
        pass
    return None if soft == resource.RLIM_INFINITY else soft


def places() -> int | None:
    """How many connections this process may have; None: no limit."""
    limit = allow_files()
    return None if limit is None else max(1, limit - _OTHERS)


def require_files(connections: int, processes: int) -> None:
    """UsageError when `connections` among `processes` are more than may be open."""
    most, each = places(), -(-connections // processes)
    if most is not None and each > most:
        message = f"{connections} connections from {processes} processes are more than {most} files that each may open"
        raise UsageError(message, fix=f"ulimit -n {each + _OTHERS}, or more --workers")
