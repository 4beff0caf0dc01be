"""What a checkpoint's content is: a SHA-256 for each file that goes into an engine, remembered between runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trtspec.checkpoints.draft_vocabulary import DRAFT_VOCABULARY
from trtspec.checkpoints.reading import child_names, require_file
from trtspec.checkpoints.weights import INDEX, find_weights
from trtspec.files import read_json, write_json
from trtspec.progress import Reporter
from trtspec.provenance import file_sha256

__all__ = ["TOKENIZER_FILES", "HashMemory", "checkpoint_files", "tokenizer_files"]

TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt", "tokenizer.model", "spiece.model", "chat_template.jinja", "chat_template.json",
)  # fmt: skip
_MODEL_FILES = ("config.json", "generation_config.json", INDEX)


def tokenizer_files(names: Iterable[str]) -> list[str]:
    """Those of a folder's files that belong to its tokenizer."""
    present = set(names)
    return [name for name in TOKENIZER_FILES if name in present]


def checkpoint_files(folder: Path, *, code: bool = False, draft: bool = False) -> list[str]:
    """Names of the files that decide what an engine of this checkpoint is.

    With `code` its Python files too, for a `draft` the list of ids that it may propose.
    """
    names = child_names(folder)
    weights = find_weights(folder, names)
    single = [name for name in _MODEL_FILES if name in names and not (name == INDEX and weights.index is None)]
    python = sorted(name for name in names if code and name.endswith(".py"))
    vocabulary = [DRAFT_VOCABULARY] if draft and DRAFT_VOCABULARY in names else []
    return [*single, *weights.files, *tokenizer_files(names), *vocabulary, *python]


class HashMemory:
    """SHA-256 of files, read again only when path, size, modification time or inode changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = _read(path)

    def hashes(self, folder: Path, names: Iterable[str], reporter: Reporter) -> dict[str, str]:
        """Name → hash for files in `folder`; what had to be read is remembered on disk.

        CheckpointError for what is no file that can be read.
        """
        marks = {name: _mark(require_file(folder / name)) for name in names}
        missing = [name for name, mark in marks.items() if self._lookup(folder / name, mark) is None]
        if missing:
            total = sum((folder / name).stat().st_size for name in missing)
            with reporter.task(f"reading {folder.name}", total, "bytes") as advance:
                for name in missing:
                    entry = {"mark": marks[name], "sha256": file_sha256(folder / name)}
                    self._known[str((folder / name).resolve())] = entry
                    advance((folder / name).stat().st_size)
            with contextlib.suppress(OSError):  # a disk that cannot be written: they are read again next time
                write_json(self._path, {"schema": 1, "files": self._known})
        return {name: self._known[str((folder / name).resolve())]["sha256"] for name in marks}

    def _lookup(self, path: Path, mark: list[int]) -> str | None:
        entry = self._known.get(str(path.resolve()))
        return entry["sha256"] if entry is not None and entry["mark"] == mark else None


def _mark(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """What was remembered; of a file that is damaged what can be used."""
    try:
        files = read_json(path)["files"]
        return {str(name): entry for name, entry in files.items() if _is_entry(entry)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("sha256"), str) and isinstance(entry.get("mark"), list)
