"""HTTP/1.1 answers out of bytes that are cut anywhere: the head, and bodies of every framing (RFC 9112, section 6)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

__all__ = ["BadAnswer", "Body", "Head", "body_of", "read_head"]

_LONGEST_LINE = 64 * 1024
_MOST_DIGITS = 18
# int() takes a sign and underscores too
_SIZE = re.compile(rb"[0-9A-Fa-f]{1,16}")
_NO_BODY = frozenset({204, 304})
_LINE_END = b"\r\n"


class BadAnswer(Exception):
    """Bytes that are no HTTP answer."""


@dataclass(frozen=True)
class Head:
    """Status and headers, their names in lower case; `keeps`: the connection can be used again after the body."""

    status: int
    headers: Mapping[str, str]
    keeps: bool


def read_head(data: bytes) -> tuple[Head, bytes] | None:
    """The head and what follows it; None while it is not whole. Interim answers (1xx) are skipped."""
    size = len(data)
    while True:
        head, found, rest = data.partition(b"\r\n\r\n")
        if not found:
            if size > _LONGEST_LINE:
                raise BadAnswer("its head does not end")
            return None
        read = _parse(head)
        if read.status >= 200:
            return read, rest
        data = rest


def _parse(data: bytes) -> Head:
    first, *lines = data.decode("latin-1").split("\r\n")
    version, _, status = first.partition(" ")
    code = status[:3]
    if not version.startswith("HTTP/1.") or not code.isdecimal():
        raise BadAnswer(f"it begins with {first[:60]!r}")
    pairs = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    connection = headers.get("connection", "").lower()
    keeps = connection != "close" if version == "HTTP/1.1" else connection == "keep-alive"
    return Head(int(code), headers, keeps)


class Body(Protocol):
    """Takes the bytes behind a head; `done` when the body is whole, `closes` when the end of the connection ends it."""

    done: bool
    closes: bool

    def feed(self, data: bytes) -> bytes:
        """The part of the body in `data`; BadAnswer when it is not framed as it says."""
        ...


def body_of(head: Head) -> Body:
    """How the body behind `head` is framed."""
    if "chunked" in head.headers.get("transfer-encoding", "").lower():
        return _Chunked()
    length = headers_length(head)
    return _Sized(0 if head.status in _NO_BODY else length)


def headers_length(head: Head) -> int | None:
    """The Content-Length; None: until the connection ends."""
    length = head.headers.get("content-length")
    if length is None:
        return None
    if not length.isdecimal() or len(length) > _MOST_DIGITS:
        raise BadAnswer(f"its length is {length[:20]!r}")
    return int(length)


class _Sized:
    """A body of known length, or (None) one that the end of the connection ends."""

    def __init__(self, length: int | None) -> None:
        self._left = length
        self.closes = length is None
        self.done = length == 0

    def feed(self, data: bytes) -> bytes:
        """`data`, as far as it belongs to the body."""
        if self._left is None:
            return data
        part = data[: self._left]
        self._left -= len(part)
        self.done = self._left == 0
        return part


class _Chunked:
    """A body in chunks, each with its size in front."""

    closes = False

    def __init__(self) -> None:
        self.done = False
        self._kept = b""
        self._left = 0  # bytes of this chunk that are to come, with the line end behind them
        self._last = False  # the chunk of size 0 has come; trailers follow

    def feed(self, data: bytes) -> bytes:
        """The contents of the chunks in `data`."""
        if self._kept:
            data = self._kept + data
        at, parts = 0, []
        while at < len(data) and not self.done:
            if self._left == 0:
                end = data.find(_LINE_END, at)
                if end < 0:
                    break
                self._line(data[at:end])
                at = end + 2
                continue
            part = data[at : at + self._left]
            # the last two bytes are the chunk's line end
            parts.append(part[: max(0, self._left - 2)])
            at += len(part)
            self._left -= len(part)
        self._keep(data[at:])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _line(self, line: bytes) -> None:
        """A chunk's size, or behind the last chunk a trailer or the empty line that ends the body."""
        if self._last:
            self.done = not line
            return
        digits = line.partition(b";")[0].strip()
        if not _SIZE.fullmatch(digits):
            raise BadAnswer(f"a chunk's size is {line[:20]!r}")
        size = int(digits, 16)
        self._last = size == 0
        self._left = size + 2 if size > 0 else 0

    def _keep(self, rest: bytes) -> None:
        if len(rest) > _LONGEST_LINE and not self.done:
            raise BadAnswer("a chunk's size does not end")
        self._kept = rest
