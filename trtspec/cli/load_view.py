"""What a load test shows while it runs: both arms side by side on a terminal, lines in a log, JSON for programs."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Group
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table

from trtspec.cli.live_view import LiveView
from trtspec.loadtest.status import ArmStatus, Status
from trtspec.spec.names import BASELINE_ARM, SPECULATIVE
from trtspec.units import duration_text

__all__ = ["LoadView", "status_table", "status_text"]

_NOT_YET = "–"
# left to right: what there is, then what is to be better
_SIDES = (BASELINE_ARM, SPECULATIVE)


class LoadView(LiveView[Status]):
    """A load test's statuses."""

    def table(self, status: Status) -> Group:
        """Both arms side by side."""
        return status_table(status)

    def line(self, status: Status) -> str:
        """How far the run is, and the present arm."""
        return status_text(status)


def status_table(status: Status) -> Group:
    """Both arms side by side, and below them how far the run is."""
    table = Table.grid(padding=(0, 3))
    table.add_column()
    for _ in _SIDES:
        table.add_column(justify="right")
    marks = ["▶ " if side == status.arm else "  " for side in _SIDES]
    table.add_row(
        f"[dim]{escape(status.load)}[/]", *(f"[bold]{m}{side}[/]" for m, side in zip(marks, _SIDES, strict=True))
    )
    arms = [status.arms.get(side, ArmStatus()) for side in _SIDES]
    for name, cell in _ROWS:
        table.add_row(name, *(cell(arm) for arm in arms))
    foot = Table.grid(padding=(0, 2))
    bar = ProgressBar(total=status.total, completed=status.done, width=32, pulse=status.total is None)
    foot.add_row(bar, _count(status), _time_left(status))
    return Group(table, foot)


def _seconds(value: float | None) -> str:
    if value is None:
        return _NOT_YET
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def _acceptance(arm: ArmStatus) -> str:
    return _NOT_YET if arm.acceptance_rate is None else f"{arm.acceptance_rate:.0%}"


def _rate(arm: ArmStatus) -> str:
    return _NOT_YET if arm.tokens_per_second is None else f"{arm.tokens_per_second:.0f}"


def _failures(arm: ArmStatus) -> str:
    return f"[red]{arm.errors}[/]" if arm.errors else "0"


_ROWS: tuple[tuple[str, Callable[[ArmStatus], str]], ...] = (
    ("tokens/s", _rate),
    ("first token", lambda arm: _seconds(arm.first_token_seconds)),
    ("request", lambda arm: _seconds(arm.seconds_per_request)),
    ("acceptance so far", _acceptance),
    ("answered", lambda arm: str(arm.done - arm.errors)),
    ("failed", _failures),
)


def _count(status: Status) -> str:
    return str(status.done) if status.total is None else f"{status.done}/{status.total}"


def _time_left(status: Status) -> str:
    return "" if status.seconds_left is None else f"{duration_text(max(1.0, status.seconds_left))} left"


def status_text(status: Status) -> str:
    """One line: requests done, the load, each arm's tokens per second, acceptance so far, errors, time left."""
    parts = [_count(status), status.load]
    for side in _SIDES:
        arm = status.arms.get(side, ArmStatus())
        if arm.tokens_per_second is not None:
            parts.append(f"{side} {arm.tokens_per_second:.0f} tokens/s")
        if arm.acceptance_rate is not None:
            parts.append(f"acceptance so far {arm.acceptance_rate:.0%}")
    if status.errors:
        parts.append(f"{status.errors} failed")
    return "  ".join([*parts, *filter(None, [_time_left(status)])])
