"""Numbers as people read them. Sizes in bytes, times in seconds."""

from __future__ import annotations

__all__ = ["bytes_text", "count_text", "duration_text", "ms_text"]

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")


def bytes_text(size: float) -> str:
    """`size` bytes with a binary unit and three significant digits at most, e.g. `513 MiB`."""
    value = float(size)
    for unit in _BINARY[:-1]:
        if abs(value) < 1024:
            return f"{value:.3g} {unit}" if unit != "B" else f"{value:.0f} B"
        value /= 1024
    return f"{value:.3g} {_BINARY[-1]}"


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


def ms_text(seconds: float) -> str:
    """`seconds` in milliseconds with three significant digits, e.g. `53.3 ms`."""
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds * 1000:.0f} ms"


def count_text(number: int) -> str:
    """`number` with thin grouping, e.g. `134 515 008`."""
    return f"{number:,}".replace(",", " ")
