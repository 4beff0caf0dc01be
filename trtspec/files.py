"""Files and folders that are there whole or not at all: temporary sibling, then rename."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

__all__ = [
    "atomic_directory",
    "cache_dir",
    "discard",
    "is_abandoned",
    "is_partial",
    "json_lines",
    "json_text",
    "partial_of",
    "read_json",
    "remove_directory",
    "scratch_directory",
    "sweep_partials",
    "write_bytes",
    "write_json",
    "write_pieces",
    "write_text",
]

_MARK = ".partial-"
_STREAMS = {"stdin": 0, "stdout": 1, "stderr": 2}
_OWN_STREAM = re.compile(r"/dev/(?P<name>stdin|stdout|stderr)|(?:/dev|/proc/self)/fd/(?P<number>\d+)")


def cache_dir() -> Path:
    """A folder of our own that can be written: TRTSPEC_CACHE, the user's cache, else one under the temporary folder."""
    if given := os.environ.get("TRTSPEC_CACHE"):
        return Path(given).expanduser().absolute()
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trtspec"
    existing = next(path for path in (base, *base.parents) if path.exists())
    if os.access(existing, os.W_OK):
        return base.absolute()
    return Path(tempfile.gettempdir()) / f"trtspec-{os.getuid()}"


def _sibling(path: Path) -> Path:
    return path.with_name(f"{path.name}{_MARK}{os.getpid()}-{uuid.uuid4().hex[:8]}")


def is_partial(path: Path) -> bool:
    """True for a temporary sibling that a running (or killed) command made."""
    return _MARK in path.name


def is_abandoned(path: Path) -> bool:
    """True for a temporary sibling whose process is gone."""
    return is_partial(path) and not _alive(path)


def partial_of(path: Path) -> Path:
    """What a temporary sibling was to become; any other path as it is."""
    return path.with_name(path.name.partition(_MARK)[0]) if is_partial(path) else path


def remove_directory(path: Path) -> None:
    """Remove a folder: it disappears at once, and a kill on the way leaves a temporary sibling, never half of it."""
    leaving = path if is_partial(path) else path.rename(_sibling(path))
    shutil.rmtree(leaving)


def discard(path: Path) -> None:
    """Remove a file, a folder, or a link (never what it leads to) as far as that is possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def write_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that a reader sees the old content or the new, never half.

    A device, a pipe or an open stream (/dev/null, /dev/stdout) is written to: a rename would put a file in its place.
    """
    write_pieces(path, [data])


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """`write_bytes` for what is too large to hold whole."""
    if not path.name or path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if (stream := _special(path)) is not None:
        with stream:
            stream.writelines(pieces)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _sibling(path)
    try:
        with temporary.open("wb") as stream:
            stream.writelines(pieces)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:  # a full disk is found while writing
            error.filename = str(path)
        raise


def _special(path: Path) -> IO[bytes] | None:
    """What is written to as it is: one of our open streams, which may lead to a plain file, a device, a pipe."""
    own = _OWN_STREAM.fullmatch(str(path))
    if own is not None:
        sys.stdout.flush()
        # a copy of the descriptor goes on where the stream stands; the path opened anew would cut the file off
        return os.fdopen(os.dup(int(own["number"] or _STREAMS[own["name"]])), "wb")
    return path.open("wb") if path.exists() and not path.is_file() else None


def write_text(path: Path, text: str) -> None:
    """`write_bytes` for UTF-8 text; half a surrogate pair, which UTF-8 cannot hold, is written as JSON escapes it."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def json_lines(text: str) -> list[str]:
    """The lines of a JSONL text: a line feed alone ends one.

    ``str.splitlines`` also cuts at U+2028, U+0085 and the like, which may stand in a JSON string as they are.
    """
    return text.split("\n")


def json_text(data: Mapping[str, Any]) -> str:
    """Indented JSON, keys in the order given, final newline; NaN is refused."""
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """`json_text` written atomically; half a surrogate pair (of a file name that is no UTF-8) as JSON's escape."""
    write_bytes(path, json_text(data).encode("utf-8", errors="backslashreplace"))


def read_json(path: Path) -> Any:
    """The JSON document at `path`; OSError or json.JSONDecodeError as they come."""
    return json.loads(path.read_text(encoding="utf-8"))


@contextlib.contextmanager
def atomic_directory(final: Path) -> Iterator[Path]:
    """Yield an empty temporary sibling of `final`; on success it becomes `final`, else it is removed.

    An existing `final` is replaced. Two processes may do this at once: the last one wins, both results are whole.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    temporary = _sibling(final)
    temporary.mkdir()
    try:
        yield temporary
        _swap(temporary, final)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


@contextlib.contextmanager
def scratch_directory(near: Path) -> Iterator[Path]:
    """Yield an empty temporary sibling of `near`, removed at the end (after a kill: `sweep_partials`)."""
    near.parent.mkdir(parents=True, exist_ok=True)
    temporary = _sibling(near)
    temporary.mkdir()
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _swap(new: Path, final: Path) -> None:
    old = _sibling(final)
    while True:
        try:
            with contextlib.suppress(FileNotFoundError):
                final.rename(old)
            try:
                new.rename(final)
            except OSError:
                if not final.exists():
                    raise
                # Another process put its result there between the two renames: move that away as well.
                old = _sibling(final)
                continue
        except BaseException:  # an interruption as well: what was there is put back
            if old.exists() and not final.exists():
                old.rename(final)
            raise
        break
    for leftover in final.parent.glob(f"{final.name}{_MARK}{os.getpid()}-*"):
        discard(leftover)


def sweep_partials(parent: Path) -> None:
    """Remove temporary siblings below `parent` whose process is gone (left by a kill)."""
    if not parent.is_dir():
        return
    for path in parent.iterdir():
        if is_partial(path) and not _alive(path):
            discard(path)


def _alive(path: Path) -> bool:
    pid = path.name.rpartition(_MARK)[2].partition("-")[0]
    if not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
