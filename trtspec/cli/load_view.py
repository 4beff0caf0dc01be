"""What a load test shows while it runs: a live line on a terminal, a line now and then in a log."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from trtspec.cli.output import Sink
from trtspec.loadtest.status import Status
from trtspec.units import duration_text

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["LoadView", "status_text"]

# a log that is no terminal gets a line this often
_SECONDS = 15.0


class LoadView:
    """Shows statuses: one live line on a terminal, a line now and then in a log, nothing in quiet mode."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._last_note = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, status: Status) -> None:
        """Take in a status."""
        if self._sink.mode == "quiet":
            return
        if self._sink.err.is_terminal:
            progress, task = self._live(status)
            progress.update(task, completed=status.done, description=status_text(status))
        elif time.monotonic() - self._last_note >= _SECONDS:
            self._last_note = time.monotonic()
            self._sink.note(f"{status.done}/{status.total}  {status_text(status)}")

    def _live(self, status: Status) -> tuple[Progress, TaskID]:
        if self._progress is None or self._task is None:
            columns = (SpinnerColumn(), BarColumn(24), MofNCompleteColumn(), TextColumn("{task.description}"))
            self._progress = Progress(*columns, TimeElapsedColumn(), console=self._sink.err, transient=True)
            self._task = self._progress.add_task("", total=status.total)
            self._progress.start()
        return self._progress, self._task


def status_text(status: Status) -> str:
    """One line: arm, concurrency, tokens per second, acceptance so far, errors, time left."""
    parts = [f"{status.arm} ×{status.concurrency}"]
    if status.tokens_per_second is not None:
        parts.append(f"{status.tokens_per_second:.0f} tokens/s")
    if status.acceptance_rate is not None:
        parts.append(f"acceptance so far {status.acceptance_rate:.0%}")
    if status.errors:
        parts.append(f"[red]{status.errors} failed[/]")
    if status.seconds_left is not None:
        parts.append(f"{duration_text(max(1.0, status.seconds_left))} left")
    return "  ".join(parts)
