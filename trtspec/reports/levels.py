"""Load levels of a run, closed and open loop alike, with what the summary says of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trtspec.loadtest.levels import CLOSED, LoadLevel, parse_level
from trtspec.reports.reading import Part

__all__ = ["Level", "levels_of"]

# closed loops stand in both sections of a summary; the plain number makes the shorter path
_BY_NUMBER = "by_concurrency"
_BY_LABEL = "by_load"


@dataclass(frozen=True, eq=False)
class Level:
    """One load level ("concurrency 4", "poisson 5/s") and its part of the summary."""

    load: LoadLevel
    part: Part

    @property
    def label(self) -> str:
        """The load's label."""
        return self.load.label

    @property
    def closed(self) -> bool:
        """True for a closed loop: a fixed number of requests in flight."""
        return self.load.closed

    @property
    def value(self) -> float | None:
        """Requests in flight, or requests per second; None where the load varies."""
        return self.load.value

    @property
    def short(self) -> str:
        """What a button or a tick says: `4`, `5/s`, `trace`."""
        if self.value is None:
            return self.label
        return f"{self.value:g}" if self.closed else f"{self.value:g}/s"


def levels_of(summary: Mapping[str, Any]) -> tuple[Level, ...]:
    """Every level of the summary: closed loops before open ones, small loads before large ones."""
    sections = [(rows.get(section) or {}, section) for rows in summary["arms"].values() for section in _SECTIONS]
    labels = {_label(name, section) for names, section in sections for name in names}
    loads = sorted(map(parse_level, labels), key=lambda load: load.order)
    return tuple(Level(load, _part(summary, load)) for load in loads)


_SECTIONS = (_BY_NUMBER, _BY_LABEL)


def _label(name: str, section: str) -> str:
    return f"{CLOSED} {name}" if section == _BY_NUMBER else name


def _part(summary: Mapping[str, Any], load: LoadLevel) -> Part:
    """The level's part at the first path that the summary has."""
    paths = [(_BY_NUMBER, f"{load.value:g}")] if load.closed else []
    for section, name in (*paths, (_BY_LABEL, load.label)):
        arms = {arm: (rows.get(section) or {}).get(name) or {} for arm, rows in summary["arms"].items()}
        if any(arms.values()):
            compared = {**_compared(summary, section, name), **_compared(summary, _BY_LABEL, load.label)}
            return Part(arms, compared.get("speedup") or {}, (section, name), compared)
    return Part({}, {}, (_BY_LABEL, load.label))


def _compared(summary: Mapping[str, Any], section: str, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (summary["comparison"].get(section) or {}).get(name) or {}
    return found
