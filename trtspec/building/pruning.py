"""Removing what no spec uses: planned first, carried out entry by entry, never what a running build holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from trtspec.building.inventory import Entry, freed_bytes
from trtspec.building.locks import locked_if_free
from trtspec.building.usage import Usage
from trtspec.files import remove_directory

__all__ = ["Kept", "PrunePlan", "PruneRules", "Removal", "prune", "prune_plan"]

_LOG_AGE = 86400.0  # seconds that the log of a failed build is kept at least: somebody may be reading it


@dataclass(frozen=True)
class PruneRules:
    """What may go.

    older_than: only what has not changed for so many seconds. checkpoints: converted checkpoints too that a spec uses
    but whose engines are finished. names: only of these specs (None: of all).
    """

    older_than: float | None = None
    checkpoints: bool = False
    names: frozenset[str] | None = None


@dataclass(frozen=True)
class Removal:
    """An entry that goes, and why."""

    entry: Entry
    reason: str


@dataclass(frozen=True)
class Kept:
    """An entry that stays although nothing is known to use it, and why."""

    entry: Entry
    reason: str


@dataclass(frozen=True)
class PrunePlan:
    """What would be removed, and what is left although it looks unused."""

    removals: tuple[Removal, ...]
    kept: tuple[Kept, ...]

    @property
    def freed(self) -> int:
        """Bytes that come free."""
        return freed_bytes(removal.entry for removal in self.removals)


def prune_plan(entries: Iterable[Entry], usage: Usage, rules: PruneRules, *, now: float | None = None) -> PrunePlan:
    """Decide about each entry; nothing is touched."""
    listed = tuple(entries)
    moment = time.time() if now is None else now
    removals: list[Removal] = []
    kept: list[Kept] = []
    for entry in listed:
        if rules.names is not None and entry.name not in rules.names:
            continue
        reason = _reason(entry, listed, usage, rules)
        if reason is None:
            continue
        obstacle = _obstacle(entry, usage, rules, moment - entry.changed)
        if obstacle is None:
            removals.append(Removal(entry, reason))
        else:
            kept.append(Kept(entry, obstacle))
    return PrunePlan(tuple(removals), tuple(kept))


def _reason(entry: Entry, entries: tuple[Entry, ...], usage: Usage, rules: PruneRules) -> str | None:
    """Why an entry could go; None when it is in use."""
    if entry.kind in {"partial", "work"}:
        return "left by a build that was killed" if entry.kind == "partial" else "working directory of typed commands"
    if entry.kind == "log":
        return "log of a build that failed"
    users = usage.of(entry)
    if not users:
        return "damaged, and no spec here uses it" if entry.state == "damaged" else "no spec here uses it"
    if entry.kind == "checkpoint" and rules.checkpoints and _engines_finished(users, entries, usage):
        return "only needed to build its engines again"
    return None


def _engines_finished(users: tuple[str, ...], entries: tuple[Entry, ...], usage: Usage) -> bool:
    """True when the users of a converted checkpoint have finished engines."""
    engines = [entry for entry in entries if entry.kind == "engine" and set(users) & set(usage.of(entry))]
    return bool(engines) and all(engine.state == "finished" for engine in engines)


def _obstacle(entry: Entry, usage: Usage, rules: PruneRules, age: float) -> str | None:
    if entry.state == "building":
        return "a running build uses it"
    if entry.linked:
        return "a link leads there: only what lies in engines/ itself is removed"
    doubt = usage.doubt(entry) if entry.kind in {"engine", "checkpoint"} else None
    if doubt is not None:
        return f"whether it is used cannot be told: {doubt}"
    age = max(age, 0.0)  # a clock that was set back
    least = rules.older_than if rules.older_than is not None else _LOG_AGE if entry.kind == "log" else 0.0
    return "it changed too recently" if age < least else None


def prune(plan: PrunePlan, removed: Callable[[Removal], None] = lambda _removal: None) -> tuple[Kept, ...]:
    """Carry a plan out; `removed` hears of each entry that is gone. Those that a build took meanwhile are kept."""
    return tuple(kept for removal in plan.removals for kept in _remove(removal, removed))


def _remove(removal: Removal, removed: Callable[[Removal], None]) -> Iterator[Kept]:
    entry = removal.entry
    with locked_if_free(entry.target) as free:
        if not free:
            yield Kept(entry, "a running build uses it, or its lock cannot be opened")
            return
        try:
            if entry.linked:  # since the plan was made
                yield Kept(entry, "a link leads there")
                return
            if entry.path.is_dir():
                remove_directory(entry.path)
            else:
                entry.path.unlink(missing_ok=True)
        except FileNotFoundError:
            return
        except OSError as error:
            yield Kept(entry, f"cannot be removed: {error.strerror or error}")
            return
    removed(removal)
