"""Where a search stands, on disk after every block: what goes on after Ctrl-C begins there."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trtspec.errors import UsageError
from trtspec.files import read_json, write_json

__all__ = ["FILE_NAME", "Level", "State"]

FILE_NAME = "state.json"
_FIX = "start a new search: trtspec tune"


@dataclass
class Level:
    """One load level: who is in the race, why others went (and after which rung), and who would win."""

    racing: list[str]
    dropped: dict[str, dict[str, Any]] = field(default_factory=dict)
    leader: str | None = None
    speedup: float | None = None
    settled: bool = False


@dataclass
class State:
    """Everything that is decided so far; `done` are this rung's blocks (label, index), `bytes` of records count."""

    levels: dict[str, Level]
    phase: str = "search"
    rung: int = 0
    done: list[tuple[str, int]] = field(default_factory=list)
    spent: float = 0.0
    costs: dict[str, tuple[int, float]] = field(default_factory=dict)
    bytes: int = 0
    final_rounds: int | None = None

    def write(self, folder: Path) -> None:
        """Write it atomically."""
        write_json(folder / FILE_NAME, {"schema": 1, **asdict(self)})

    @classmethod
    def read(cls, folder: Path) -> State:
        """The state in a folder; UsageError when there is none to go on from."""
        try:
            data = read_json(folder / FILE_NAME)
            levels = {label: Level(**level) for label, level in data.pop("levels").items()}
            done = [(label, index) for label, index in data.pop("done")]
            costs = {key: (count, total) for key, (count, total) in data.pop("costs").items()}
            data.pop("schema")
            return cls(levels=levels, done=done, costs=costs, **data)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise UsageError("no search to go on with", where=str(folder), fix=_FIX) from None
