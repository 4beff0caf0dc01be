"""What a server says of itself, as far as it is what it is said to be: a record must not hold what no reader takes."""

from __future__ import annotations

from typing import Any

from trtspec.loadtest.records import STAMPS
from trtspec.wire.messages import Counters, ServerStamps

__all__ = ["changed", "sound_counters", "sound_stamps"]

_LARGEST = 2**63 - 1


def sound_counters(counters: Counters | None) -> Counters | None:
    """`counters` itself where all of them are counts; else with None for those that are none."""
    if counters is None:
        return None
    wrong: dict[str, Any] = {name: None for name, value in counters._asdict().items() if not _is_sound(value)}
    return counters._replace(**wrong) if wrong else counters


def sound_stamps(stamps: ServerStamps | None) -> ServerStamps | None:
    """`stamps` itself where all of them fit 64 bits; else with None for those that do not."""
    values = {} if stamps is None else {name: getattr(stamps, name) for name in STAMPS}
    wrong = [name for name, value in values.items() if value is not None and abs(value) > _LARGEST]
    if stamps is None or not wrong:
        return stamps
    return ServerStamps(**{name: value for name, value in values.items() if name not in wrong})


def changed(before: Counters | ServerStamps | None, after: Counters | ServerStamps | None) -> list[str]:
    """Names of what was there before and is not after."""
    names = Counters._fields if isinstance(before, Counters) else STAMPS
    return [name for name in names if getattr(before, name, None) is not None and getattr(after, name, None) is None]


def _is_sound(value: Any) -> bool:
    return value is None or (all(map(_is_count, value)) if isinstance(value, tuple) else _is_count(value))


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST
