"""How long work tells what it does, without knowing who listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

__all__ = ["Advance", "Reporter", "SilentReporter", "Tell"]

Advance = Callable[[float], None]
Tell = Callable[[str], None]


class Reporter(Protocol):
    """Where progress goes; `trtspec.cli.output` shows it on stderr."""

    def task(self, label: str, total: float | None = None, unit: str = "") -> AbstractContextManager[Advance]:
        """A bar for the `with` block: call the yielded function with each advance (unit "bytes": shown as a size)."""
        ...

    def activity(self, label: str) -> AbstractContextManager[Tell]:
        """A program that runs for the `with` block, several at a time: tell the yielded function its latest line."""
        ...

    def note(self, text: str) -> None:
        """One line of chatter."""
        ...


class SilentReporter:
    """Listens to nothing."""

    @contextmanager
    def task(self, label: str, total: float | None = None, unit: str = "") -> Iterator[Advance]:
        """A bar that nobody sees."""
        del label, total, unit
        yield lambda _amount: None

    @contextmanager
    def activity(self, label: str) -> Iterator[Tell]:
        """A program that nobody watches."""
        del label
        yield lambda _line: None

    def note(self, text: str) -> None:
        """Dropped."""
        del text
