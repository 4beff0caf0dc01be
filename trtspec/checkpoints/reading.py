"""Files of a checkpoint, read so that every fault names the file and the way out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trtspec.errors import CheckpointError

__all__ = [
    "REFETCH",
    "child_names",
    "decode_text",
    "is_lfs_pointer",
    "not_readable",
    "parse_document",
    "read_document",
    "read_text",
]

REFETCH = "fetch the checkpoint again: hf download ORG/MODEL --local-dir FOLDER"
_LFS = b"version https://git-lfs"
_BOM = b"\xef\xbb\xbf"


def child_names(folder: Path) -> list[str]:
    """Sorted names in the checkpoint folder; CheckpointError when it is not a readable folder."""
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except FileNotFoundError:
        raise CheckpointError("no such checkpoint folder", where=str(folder), fix=_missing_fix(folder)) from None
    except NotADirectoryError:
        fix = f"give the folder that holds it: {folder.parent}"
        raise CheckpointError("is a file, not a checkpoint folder", where=str(folder), fix=fix) from None
    except OSError as error:
        raise not_readable(folder, error) from None
    if "snapshots" in names and "config.json" not in names:
        snapshot = next(iter(sorted((folder / "snapshots").glob("*"))), folder / "snapshots" / "REVISION")
        message = "is a hub cache; the checkpoint lies further down"
        raise CheckpointError(message, where=str(folder), fix=f"give this folder: {snapshot}")
    return names


def _missing_fix(folder: Path) -> str:
    if folder.is_symlink():
        return f"the link points to {folder.readlink()}, which is not there: {REFETCH}"
    return f"correct the path, or fetch the model: hf download ORG/MODEL --local-dir {folder}"


def not_readable(path: Path, error: OSError) -> CheckpointError:
    """The CheckpointError for what the system said about `path`."""
    if isinstance(error, PermissionError):
        return CheckpointError("permission denied", where=str(path), fix=f"make it readable: chmod -R u+rX {path}")
    if isinstance(error, IsADirectoryError):
        return CheckpointError("is a folder where a file is expected", where=str(path), fix=REFETCH)
    if isinstance(error, FileNotFoundError):
        what = "is a link to a file that is not there (an interrupted download?)" if path.is_symlink() else "is missing"
        return CheckpointError(what, where=str(path), fix=REFETCH)
    return CheckpointError(f"cannot be read: {error.strerror or error}", where=str(path), fix=REFETCH)


def is_lfs_pointer(head: bytes) -> bool:
    """True when a file's first bytes are a Git LFS pointer, not the file itself."""
    return head.startswith(_LFS)


def read_text(path: Path) -> str:
    """The UTF-8 text of `path`; CheckpointError for anything that is not one."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise not_readable(path, error) from None
    return decode_text(path, data)


def decode_text(path: Path, data: bytes) -> str:
    """`data`, the content of `path`, as text; CheckpointError for an empty file, a pointer, a BOM or no UTF-8."""
    where = str(path)
    if not data.strip():
        raise CheckpointError("is empty", where=where, fix=REFETCH)
    if is_lfs_pointer(data):
        raise CheckpointError(
            "is a Git LFS pointer, not the file", where=where, fix=f"cd {path.parent} && git lfs pull"
        )
    if data.startswith(_BOM):
        fix = f"save it without one: sed -i '1s/^\\xEF\\xBB\\xBF//' {path}"
        raise CheckpointError("begins with a byte order mark, which loaders refuse", where=where, fix=fix)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"is not UTF-8 text (byte {error.start})", where=where, fix=REFETCH) from None


def parse_document(path: Path, text: str) -> dict[str, Any]:
    """The JSON object in `text`, the content of `path`; CheckpointError with line and column when it is not one."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        message = f"is not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        raise CheckpointError(message, where=str(path), fix=REFETCH) from None
    except RecursionError:
        raise CheckpointError("is nested too deeply to be read", where=str(path), fix=REFETCH) from None
    except ValueError as error:  # an integer with thousands of digits
        raise CheckpointError(f"is not valid JSON: {error}", where=str(path), fix=REFETCH) from None
    if not isinstance(data, dict):
        message = f"holds a JSON {type(data).__name__}, an object is expected"
        raise CheckpointError(message, where=str(path), fix=REFETCH)
    return data


def read_document(path: Path) -> dict[str, Any]:
    """The JSON object at `path`; CheckpointError says what is wrong with the file."""
    return parse_document(path, read_text(path))
