"""draft_vocabulary.json: the ids that a draft may propose (see `trtspec.torch_runtime.head`); without it, all."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from trtspec.errors import CheckpointError
from trtspec.files import read_json, write_text

__all__ = ["DRAFT_VOCABULARY", "read_draft_vocabulary", "write_draft_vocabulary"]

DRAFT_VOCABULARY = "draft_vocabulary.json"  # beside a draft's weights: {"schema": 1, "ids": […]}


def read_draft_vocabulary(folder: Path, vocab_size: int) -> list[int] | None:
    """The ids in `folder`/draft_vocabulary.json in rising order; None without one, CheckpointError when it is wrong."""
    path = folder / DRAFT_VOCABULARY
    try:
        document = read_json(path)
        ids, schema = document["ids"], document.get("schema", 1)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise _wrong(path, "is not a JSON object with a list of ids") from None
    if schema != 1:
        raise _wrong(path, f"has schema {schema!r}; this release reads 1")
    if not isinstance(ids, list) or not ids or any(type(token) is not int for token in ids):
        raise _wrong(path, "its ids are not a list of whole numbers")
    if min(ids) < 0 or max(ids) >= vocab_size:
        raise _wrong(path, f"has ids outside the vocabulary (0 to {vocab_size - 1})")
    return sorted(set(ids))


def _wrong(path: Path, message: str) -> CheckpointError:
    fix = "copy it again from where the draft was made, or remove it: the draft then proposes any token, at more cost"
    return CheckpointError(message, where=str(path), fix=fix)


def write_draft_vocabulary(folder: Path, ids: Iterable[int]) -> None:
    """Write `folder`/draft_vocabulary.json."""
    text = json.dumps({"schema": 1, "ids": sorted(set(ids))}, separators=(",", ":"))
    write_text(folder / DRAFT_VOCABULARY, text + "\n")
