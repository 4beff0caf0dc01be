"""Several runs side by side, in the order of their time: what became faster, and what differs between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from typing import Any

from trtspec.loadtest.run_index import started
from trtspec.reports.data import ReportData, load_report
from trtspec.reports.levels import Level
from trtspec.reports.reading import Interval
from trtspec.reports.source import RunSource

__all__ = ["Change", "History", "PastRun", "history_json", "load_history"]

# keys of a provenance that differ between any two runs and mean nothing
_PASSING = {
    "created", "argv", "schema", "resumed", "labels", "options.out", "options.counted", "machine.load_average",
}  # fmt: skip
_TIMES = ("time_to_first_token", "time_per_output_token", "request_latency")
# a baseline that moved by more than this between runs says that machine or setup changed
_MOVED = 0.05


@dataclass(frozen=True)
class PastRun:
    """One run of the history; the texts and requests are not kept."""

    name: str
    path: str
    started: float
    data: ReportData

    @property
    def moment(self) -> str:
        """When it began, in UTC."""
        return datetime.fromtimestamp(self.started, tz=timezone.utc).strftime("%Y-%m-%d %H:%M")

    def level(self, label: str) -> Level | None:
        """Its part at a load."""
        return next((level for level in self.data.levels if level.label == label), None)

    def speedup(self, label: str) -> Interval | None:
        """The headline speed-up at a load."""
        level = self.level(label)
        return None if level is None else level.part.speedup(self.data.headline)


@dataclass(frozen=True)
class Change:
    """How the speed-up at a load went from one run to the next; `clear` when the two intervals do not overlap."""

    load: str
    before: Interval
    after: Interval

    @property
    def ratio(self) -> float:
        """After over before."""
        return self.after.estimate / self.before.estimate

    @property
    def clear(self) -> bool | None:
        """Whether the intervals lie apart; None where one is missing."""
        ends = (self.before.low, self.before.high, self.after.low, self.after.high)
        if None in ends:
            return None
        return bool(self.after.low > self.before.high or self.after.high < self.before.low)  # type: ignore[operator]


@dataclass(frozen=True)
class History:
    """The runs, the oldest first."""

    runs: tuple[PastRun, ...]

    @cached_property
    def loads(self) -> list[str]:
        """Every load level that some run has, in reading order."""
        levels = {level.label: level.load.order for run in self.runs for level in run.data.levels}
        return sorted(levels, key=lambda label: levels[label])

    def changes(self) -> list[Change]:
        """From the last run but one to the last, at each load that both have."""
        if len(self.runs) < 2:
            return []
        before, after = self.runs[-2:]
        pairs = ((load, before.speedup(load), after.speedup(load)) for load in self.loads)
        return [Change(load, one, other) for load, one, other in pairs if one is not None and other is not None]

    def moved(self) -> list[str]:
        """Sentences about a baseline that changed by itself between the last two runs."""
        if len(self.runs) < 2:
            return []
        before, after = self.runs[-2:]
        return [text for load in self.loads if (text := _moved(before, after, load))]

    def differences(self) -> list[tuple[str, tuple[str, ...]]]:
        """What the runs were made with that is not the same in all: dotted key → the value in each."""
        flat = [dict(_leaves(run.data.provenance or {})) for run in self.runs]
        keys = dict.fromkeys(key for leaves in flat for key in leaves)
        rows = [(key, tuple(leaves.get(key, "–") for leaves in flat)) for key in keys]
        return [(key, values) for key, values in rows if len(set(values)) > 1]


def _moved(before: PastRun, after: PastRun, load: str) -> str:
    old, new = (_baseline(run, load) for run in (before, after))
    if old is None or new is None or abs(new / old - 1) <= _MOVED:
        return ""
    share = f"{abs(new / old - 1):.0%} {'slower' if new > old else 'faster'}"
    return f"the baseline itself is {share} than in {before.name} at {load}: machine, server or prompts changed"


def _baseline(run: PastRun, load: str) -> float | None:
    """The baseline's median latency in seconds."""
    level = run.level(load)
    found = None if level is None else level.part.metric("baseline", "request_latency").get("p50")
    return float(found) if found else None


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Dotted key → text of every value below, lists as one."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            key = f"{path}.{name}" if path else str(name)
            if key not in _PASSING:
                yield from _leaves(item, key)
    else:
        yield path, str(value)


def load_history(sources: Sequence[RunSource]) -> History:
    """The runs in order of their time; RecordsError names a broken line."""
    runs = [PastRun(source.name, str(source.path), started(source.path), load_report(source)) for source in sources]
    return History(tuple(sorted(runs, key=lambda run: run.started)))


def history_json(history: History) -> dict[str, Any]:
    """What `report RUN RUN … --output json` prints: the runs with their summaries, and the last change."""
    return {
        "schema": 1,
        "runs": [
            {"name": run.name, "path": run.path, "started": run.moment, "summary": run.data.summary}
            for run in history.runs
        ],
        "changes": [
            {"load": change.load, "before": change.before.estimate, "after": change.after.estimate,
             "ratio": change.ratio, "clear": change.clear}
            for change in history.changes()
        ],
        "warnings": history.moved(),
        "differences": [{"key": key, "values": list(values)} for key, values in history.differences()],
    }  # fmt: skip
