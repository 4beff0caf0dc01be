"""Files of a checkpoint, read so that every fault names the file and the way out."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from trtspec.errors import CheckpointError
from trtspec.units import bytes_text

__all__ = [
    "REFETCH",
    "child_names",
    "decode_text",
    "is_lfs_pointer",
    "not_readable",
    "open_file",
    "parse_document",
    "read_bytes",
    "read_document",
    "read_text",
    "refetch",
    "require_file",
]

REFETCH = "fetch the checkpoint again: hf download ORG/MODEL --local-dir FOLDER"
_LARGEST = 512 << 20  # bytes of a JSON document: the largest tokenizers have 40 MB, the largest indexes 10 MB
_LFS = b"version https://git-lfs"
_BOM = b"\xef\xbb\xbf"


def child_names(folder: Path) -> list[str]:
    """Sorted names in the checkpoint folder; CheckpointError when it is not a readable folder."""
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except FileNotFoundError:
        fix = _missing_fix(folder)
        raise CheckpointError("no such checkpoint folder", where=str(folder), fix=fix, code="folder-missing") from None
    except NotADirectoryError:
        fix = f"give the folder that holds it: {folder.parent}"
        message = "is a file, not a checkpoint folder"
        raise CheckpointError(message, where=str(folder), fix=fix, code="is-file") from None
    except OSError as error:
        raise not_readable(folder, error) from None
    if "snapshots" in names and "config.json" not in names:
        message = "is a hub cache; the checkpoint lies further down"
        raise CheckpointError(
            message, where=str(folder), fix=f"give this folder: {_snapshot(folder)}", code="hub-cache"
        )
    return names


def _snapshot(cache: Path) -> Path:
    """The revision that a hub cache calls main, else one of those it holds."""
    try:
        main = cache / "snapshots" / (cache / "refs" / "main").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        main = cache
    if main != cache and main.is_dir():
        return main
    return next(iter(sorted((cache / "snapshots").glob("*"))), cache / "snapshots" / "REVISION")


def refetch(path: Path) -> str:
    """The command that fetches the checkpoint at (or around) `path` again; a hub cache says which one it is."""
    for folder in (path, *path.parents):
        parts = folder.name.split("--")
        if folder.name.startswith("models--") and len(parts) >= 3:
            inner = path.relative_to(folder).parts
            revision = f" --revision {inner[1]}" if inner[:1] == ("snapshots",) and len(inner) > 1 else ""
            return f"fetch what is missing: hf download {parts[1]}/{'--'.join(parts[2:])}{revision}"
    return REFETCH


def _missing_fix(folder: Path) -> str:
    if folder.is_symlink():
        return f"the link points to {folder.readlink()}, which is not there: {refetch(folder)}"
    return f"correct the path, or fetch the model: hf download ORG/MODEL --local-dir {folder}"


def not_readable(path: Path, error: OSError) -> CheckpointError:
    """The CheckpointError for what the system said about `path`."""
    where = str(path)
    if isinstance(error, PermissionError):
        fix = f"make it readable: chmod -R u+rX {path}"
        return CheckpointError("permission denied", where=where, fix=fix, code="permission")
    if isinstance(error, IsADirectoryError):
        return CheckpointError("is a folder where a file is expected", where=where, fix=REFETCH, code="is-folder")
    if isinstance(error, FileNotFoundError) and path.is_symlink():
        what = "is a link to a file that is not there (an interrupted download?)"
        return CheckpointError(what, where=where, fix=refetch(path), code="broken-link")
    if isinstance(error, FileNotFoundError):
        return CheckpointError("is missing", where=where, fix=refetch(path), code="missing")
    return CheckpointError(f"cannot be read: {error.strerror or error}", where=where, fix=REFETCH)


def is_lfs_pointer(head: bytes) -> bool:
    """True when a file's first bytes are a Git LFS pointer, not the file itself."""
    return head.startswith(_LFS)


def open_file(path: Path) -> BinaryIO:
    """`path` open for reading; OSError as it comes, CheckpointError for a pipe, a device or a socket.

    A pipe would be waited for without an end, and a device has no end.
    """
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        message = "is a pipe, a socket or a device where a file is expected"
        raise CheckpointError(message, where=str(path), fix=REFETCH, code="no-file")
    return path.open("rb")


def require_file(path: Path) -> Path:
    """`path`, when it is a file that can be read; CheckpointError otherwise."""
    try:
        open_file(path).close()
    except OSError as error:
        raise not_readable(path, error) from None
    return path


def read_bytes(path: Path) -> bytes:
    """The content of a document at `path`; CheckpointError when it cannot be read or is no document by its size."""
    try:
        with open_file(path) as stream:
            if os.fstat(stream.fileno()).st_size <= _LARGEST:
                return stream.read()
    except OSError as error:
        raise not_readable(path, error) from None
    message = f"is larger than any such document ({bytes_text(_LARGEST)})"
    raise CheckpointError(message, where=str(path), fix=REFETCH, code="too-large")


def read_text(path: Path) -> str:
    """The UTF-8 text of `path`; CheckpointError for anything that is not one."""
    return decode_text(path, read_bytes(path))


def decode_text(path: Path, data: bytes) -> str:
    """`data`, the content of `path`, as text; CheckpointError for an empty file, a pointer, a BOM or no UTF-8."""
    where = str(path)
    if not data or data.isspace():
        raise CheckpointError("is empty", where=where, fix=REFETCH, code="empty")
    if is_lfs_pointer(data):
        fix = f"cd {path.parent} && git lfs pull"
        raise CheckpointError("is a Git LFS pointer, not the file", where=where, fix=fix, code="lfs-pointer")
    if data.startswith(_BOM):
        fix = f"save it without one: sed -i '1s/^\\xEF\\xBB\\xBF//' {path}"
        message = "begins with a byte order mark, which loaders refuse"
        raise CheckpointError(message, where=where, fix=fix, code="byte-order-mark")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"is not UTF-8 text (byte {error.start})"
        raise CheckpointError(message, where=where, fix=REFETCH, code="not-utf8") from None


def parse_document(path: Path, text: str) -> dict[str, Any]:
    """The JSON object in `text`, the content of `path`; CheckpointError with line and column when it is not one."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        message = f"is not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        raise CheckpointError(message, where=str(path), fix=REFETCH, code="not-json") from None
    except RecursionError:
        message = "is nested too deeply to be read"
        raise CheckpointError(message, where=str(path), fix=REFETCH, code="too-deep") from None
    except ValueError as error:  # an integer with thousands of digits
        raise CheckpointError(f"is not valid JSON: {error}", where=str(path), fix=REFETCH, code="not-json") from None
    if not isinstance(data, dict):
        message = f"holds a JSON {type(data).__name__}, an object is expected"
        raise CheckpointError(message, where=str(path), fix=REFETCH, code="not-object")
    return data


def read_document(path: Path) -> dict[str, Any]:
    """The JSON object at `path`; CheckpointError says what is wrong with the file."""
    return parse_document(path, read_text(path))
