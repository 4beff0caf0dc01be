"""Arrays and facts in one file that is there whole or not at all, and that tells when it was damaged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trtspec.errors import TrtspecError
from trtspec.files import write_bytes

__all__ = ["Arrays", "FileDamaged", "load_tensors", "save_tensors"]

Arrays = dict[str, NDArray[Any]]
_FACTS, _DIGEST = "facts.json", "sha256"


class FileDamaged(TrtspecError):
    """A file of ours that is cut, or whose content is not what was written."""


def save_tensors(path: Path, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> str:
    """Write a safetensors file with the facts as JSON in it; returns the digest of its content.

    The same content gives the same bytes. OSError names the file when the disk is full.
    """
    from safetensors.numpy import save

    text = json.dumps(facts, sort_keys=True, ensure_ascii=False, allow_nan=False)
    content = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    content[_FACTS] = np.frombuffer(text.encode(), dtype=np.uint8)
    digest = _digest(content)
    content[_DIGEST] = np.frombuffer(bytes.fromhex(digest), dtype=np.uint8)
    write_bytes(path, save(content))
    return digest


def load_tensors(path: Path) -> tuple[Arrays, dict[str, Any], str]:
    """Arrays, facts and digest of a file that `save_tensors` wrote; FileDamaged when it is not as it was written."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        content: Arrays = load(path.read_bytes())
        digest = bytes(content.pop(_DIGEST)).hex()
        whole = _digest(content) == digest
        facts: dict[str, Any] = json.loads(bytes(content.pop(_FACTS)))
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise FileDamaged(f"is damaged: {error}", where=str(path)) from None
    if not whole:
        raise FileDamaged("is damaged: its content does not match its checksum", where=str(path))
    return content, facts, digest


def _digest(content: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name in sorted(content):
        array = content[name]
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(array.reshape(-1).view(np.uint8).data if array.size else b"")
    return digest.hexdigest()
