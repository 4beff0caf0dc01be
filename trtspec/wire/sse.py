"""Server-sent events out of a byte stream that is cut anywhere.

Rules: WHATWG HTML, section 9.2.6 (event stream interpretation). Only `data` fields matter here; comments (keep-alives)
and other fields are skipped. Nothing is decoded before an event is whole, so a character cut in two is no problem.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trtspec.errors import RequestFailed

__all__ = ["EventSplitter"]

_BLANK_LINE = re.compile(rb"\r\n\r\n|\n\n|\r\r|\n\r\n")
_LINE = re.compile(rb"\r\n|\n|\r")
_MARK = b"\xef\xbb\xbf"  # byte order mark
_LONGEST = 8 * 2**20


class EventSplitter:
    """`feed` bytes as they arrive; it gives the data of each event that has become whole."""

    def __init__(self) -> None:
        self._kept = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The data of every event that ends in `data`; RequestFailed for one that goes on without end."""
        if not self._kept and _is_one_event(data):
            return [data[5:-2].strip(b" ")]
        block = self._kept + data if self._kept else data
        start, found = 0, []
        for end, following in _ends(block):
            payload = _payload(block[start:end])
            if payload is not None:
                found.append(payload)
            start = following
        self._kept = block[start:]
        if len(self._kept) > _LONGEST:
            raise RequestFailed(f"an event of the answer has more than {_LONGEST >> 20} MiB", code="bad_response")
        return found

    def rest(self) -> bytes | None:
        """The data of a last event that no blank line ends; None when the stream ended between events."""
        return _payload(self._kept)


def _is_one_event(data: bytes) -> bool:
    """The usual case, told apart cheaply: one line of data and a blank one."""
    one_line = data.find(b"\n") == len(data) - 2 and b"\r" not in data
    return one_line and data.startswith(b"data:") and data.endswith(b"\n\n")


def _ends(block: bytes) -> Iterator[tuple[int, int]]:
    """(end of the event, start of the next) for every event that is whole in `block`."""
    if b"\r" in block:
        for match in _BLANK_LINE.finditer(block):
            yield match.span()
        return
    at = block.find(b"\n\n")
    while at >= 0:
        yield at, at + 2
        at = block.find(b"\n\n", at + 2)


def _payload(block: bytes) -> bytes | None:
    """The data of an event's lines, joined by newlines; None when it has none."""
    if block.startswith(b"data:") and b"\n" not in block and b"\r" not in block:
        return block[5:].strip(b" ")
    lines = [_field(line) for line in _LINE.split(block.removeprefix(_MARK))]
    parts = [line for line in lines if line is not None]
    return b"\n".join(parts) if parts else None


def _field(line: bytes) -> bytes | None:
    name, _, value = line.partition(b":")
    return value.strip(b" ") if name == b"data" else None
