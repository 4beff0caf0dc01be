"""How a search stands, for whoever shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["LevelStatus", "Phase", "TuneListener", "TuneStatus"]

Phase = Literal["search", "confirm"]


@dataclass(frozen=True)
class LevelStatus:
    """A load level: who is still in the race, who leads since the last rung (None: not known yet), and by how much."""

    racing: tuple[str, ...]
    leader: str | None = None
    speedup: float | None = None
    settled: bool = False


@dataclass(frozen=True)
class TuneStatus:
    """After one more half of a block: `done` of `total` in this rung, seconds spent of the budget."""

    phase: Phase
    rung: int
    load: str
    candidate: str
    done: int
    total: int
    spent: float
    budget: float
    levels: Mapping[str, LevelStatus]

    def as_json(self) -> dict[str, Any]:
        """For a line of JSON."""
        return asdict(self)


TuneListener = Callable[[TuneStatus], None]
