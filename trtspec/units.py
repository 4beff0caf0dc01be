"""Numbers and text as people read them. Sizes in bytes, times in seconds."""

from __future__ import annotations

import re

__all__ = [
    "bounds_text",
    "bytes_text",
    "count_text",
    "cut_text",
    "duration_text",
    "ms_text",
    "plain_text",
    "three_digits",
]

# sequences that a terminal obeys (ECMA-48: CSI, OSC, others), then single control characters
_CONTROL = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?|\x1b[ -~]?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")


def three_digits(value: float) -> str:
    """`value` with three significant digits at most, all of those before the point, never in powers of ten."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"


def bytes_text(size: float) -> str:
    """`size` bytes with a binary unit and three significant digits at most, e.g. `513 MiB`, `1010 MiB`."""
    value = float(size)
    for unit in _BINARY[:-1]:
        if abs(value) < 1024:
            return f"{three_digits(value)} {unit}" if unit != "B" else f"{value:.0f} B"
        value /= 1024
    return f"{three_digits(value)} {_BINARY[-1]}"


def duration_text(seconds: float) -> str:
    """`seconds` as `850 ms`, `12.3 s`, `4 min 05 s` or `2 h 03 min`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def bounds_text(low: float, high: float, between: str = "–") -> str:
    """The ends of a speed-up's interval, `1.21–1.44`; ends that say nothing any more are cut: `<0.01–>100`."""
    return between.join(map(_bound, (low, high)))


def _bound(end: float) -> str:
    if end < 0.005:
        return "<0.01"
    return ">100" if end > 100 else f"{end:.1f}" if end >= 10 else f"{end:.2f}"


def ms_text(seconds: float) -> str:
    """`seconds` in milliseconds with three significant digits, e.g. `53.3 ms`."""
    return f"{three_digits(seconds * 1000)} ms"


def count_text(number: int) -> str:
    """`number` with thin grouping, e.g. `134 515 008`."""
    return f"{number:,}".replace(",", " ")


def plain_text(text: str) -> str:
    """`text` without what a terminal obeys (colours, cursor movements, titles); tabs and line ends stay."""
    return _CONTROL.sub("", text)


def cut_text(text: str, most: int) -> str:
    """`text`; beginning and end of one that has more than `most` characters."""
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}"
