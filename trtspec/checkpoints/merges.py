"""The merges of a tokenizer.json, hashed without making a Python object of each.

They are two thirds of the file (280 000 for Llama 3) and only their equality matters here. A file as the tokenizers
library writes it is cut by its line ends, which cannot stand inside a JSON string; any other is left to the parser.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from itertools import chain
from typing import Any

from trtspec.checkpoints.tokenizer_facts import content_key

__all__ = ["CutDocument", "cut_merges", "merges_key"]

_KEY = re.compile(rb'"merges"\s*:\s*\[')  # a quote inside a string is escaped: this is a key
_FIRST = re.compile(rb'\[(\s*\n\s*)(?:\[(\s*\n\s*))?"')
_TAIL = re.compile(rb"\s*\}\s*\}\s*")  # of the model and of the document: merges stand last in both
_FORM = "merges"
_BACKSLASH, _QUOTE = b"\x01", b"\x02"  # control characters cannot stand in a JSON string
_PLAIN = bytes.maketrans(_BACKSLASH + _QUOTE + b" ", b'\\"\0')


@dataclass(frozen=True)
class CutDocument:
    """A tokenizer.json with an empty list in place of its merges, and their key."""

    rest: bytes
    key: str


def merges_key(merges: list[Any]) -> str:
    """A hash of BPE merges; those written as "a b" have the same as those written as ["a", "b"]."""
    flat = merges if not merges or isinstance(merges[0], str) else chain.from_iterable(merges)
    try:
        return _hash("\0".join(flat).replace(" ", "\0").encode("utf-8", "surrogatepass"))
    except TypeError:  # neither form: compared as they stand
        return content_key(merges)


def _hash(canonical: bytes) -> str:
    return f"{_FORM}:{hashlib.sha256(canonical).hexdigest()}"


def cut_merges(data: bytes) -> CutDocument | None:
    """`data` without its merges; None when it is not written the usual way, and must be parsed as a whole."""
    found = _KEY.search(data)
    end = data.rfind(b"]")
    if found is None or _KEY.search(data, found.end()) or not _TAIL.fullmatch(data, end + 1):
        return None
    start = found.end() - 1
    canonical = _canonical(data[start : end + 1])
    return None if canonical is None else CutDocument(data[:start] + b"[]" + data[end + 1 :], _hash(canonical))


def _canonical(raw: bytes) -> bytes | None:
    """The parts of all merges with a zero byte between them; None when something else is left over."""
    first = _FIRST.match(raw)
    if first is None:
        return None
    outer, inner = first.groups()
    body = raw[first.end() : raw.rindex(b'"')]
    if inner is not None:
        body = body.replace(b'"' + outer + b"]," + outer + b"[" + inner + b'"', b"\0")
        outer = inner
    body = body.replace(b'",' + outer + b'"', b"\0").replace(b"\\\\", _BACKSLASH).replace(b'\\"', _QUOTE)
    if b'"' in body or b"\\" in body or b"\n" in body or not _is_text(body):
        return None
    return body.translate(_PLAIN)


def _is_text(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
