"""What a load test shows: a live line while it runs, a table when it is done."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from trtspec.cli.output import Sink
from trtspec.loadtest.status import Status
from trtspec.units import duration_text, ms_text

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["LoadView", "status_text", "summary_table"]

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
        parts.append(f"acceptance {status.acceptance_rate:.0%}")
    if status.errors:
        parts.append(f"[red]{status.errors} failed[/]")
    if status.seconds_left is not None:
        parts.append(f"{duration_text(max(1.0, status.seconds_left))} left")
    return "  ".join(parts)


_ROWS = (
    ("time_to_first_token", "time to first token", "ms"),
    ("time_per_output_token", "time per output token", "ms"),
    ("request_latency", "request latency", "ms"),
    ("max_stall", "longest stall", "ms"),
    ("tokens_per_chunk", "tokens per chunk", ""),
    ("output_tokens_per_second", "tokens/s in total", "total"),
)


def summary_table(console: Console, summary: Mapping[str, Any]) -> None:
    """Print the verdict, a table of both arms at every concurrency, and the warnings."""
    comparison = summary["comparison"]
    console.print(f"[bold]{escape(comparison['verdict'])}[/]")
    console.print(_acceptance_line(summary["acceptance"]))
    console.print(_equality_line(comparison["equality"]))
    for concurrency in _concurrencies(summary):
        console.print()
        console.print(_level_table(summary, concurrency))
    for warning in comparison["warnings"]:
        console.print(f"[yellow]note:[/] {escape(warning)}")


def _concurrencies(summary: Mapping[str, Any]) -> list[str]:
    found = {level for arm in summary["arms"].values() for level in arm["by_concurrency"]}
    return sorted(found, key=int)


def _acceptance_line(acceptance: Mapping[str, Any]) -> str:
    rate, length = acceptance["acceptance_rate"], acceptance["mean_acceptance_length"]
    if length is None:
        return f"acceptance: {escape(acceptance['reason'] or 'not available')}"
    share = "" if rate is None else f"{rate:.0%} of drafted tokens, "
    source = "" if acceptance["source"] == "server" else f" ({acceptance['source']})"
    return f"acceptance: {share}{length:.2f} tokens a round{source}"


def _equality_line(equality: Mapping[str, Any]) -> str:
    identical, diverged = equality["identical"], equality["diverged"]
    if not diverged:
        return f"outputs: identical in all {identical} pairs"
    verdicts = [place["verdict"] for place in equality["first_divergence"] if place.get("verdict")]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))
    return f"outputs: {identical} pairs identical, {diverged} diverged" + (f" ({counts})" if counts else "")


def _level_table(summary: Mapping[str, Any], concurrency: str) -> Table:
    table = Table(title=f"concurrency {concurrency}", title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    arms = list(summary["arms"])
    for arm in arms:
        table.add_column(f"{arm} mean", justify="right")
        table.add_column("p50", justify="right")
        table.add_column("p95", justify="right")
    table.add_column("speed-up", justify="right")
    speedups = summary["comparison"]["by_concurrency"].get(concurrency, {}).get("speedup", {})
    for metric, label, unit in _ROWS:
        cells = [
            cell for arm in arms for cell in _cells(summary["arms"][arm]["by_concurrency"], concurrency, metric, unit)
        ]
        table.add_row(label, *cells, _interval(speedups.get(metric)))
    requests = [_requests(summary["arms"][arm]["by_concurrency"].get(concurrency)) for arm in arms]
    table.add_row("requests (ok / failed / left out)", *(cell for text in requests for cell in (text, "", "")), "")
    return table


def _cells(levels: Mapping[str, Any], concurrency: str, metric: str, unit: str) -> list[str]:
    row = levels.get(concurrency, {}).get(metric)
    if row is None:
        return ["–", "–", "–"]
    if unit == "total":
        return [_number(row.get("total"), ""), "", ""]
    return [_number(row.get(key), unit) for key in ("mean", "p50", "p95")]


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    return ms_text(value) if unit == "ms" else f"{value:.3g}"


def _interval(row: Mapping[str, Any] | None) -> str:
    if row is None or row["estimate"] is None:
        return ""
    if row["low"] is None:
        return f"{row['estimate']:.2f}"
    return f"{row['estimate']:.2f} ({row['low']:.2f}–{row['high']:.2f})"


def _requests(level: Mapping[str, Any] | None) -> str:
    if level is None:
        return "–"
    counts = level["requests"]
    return f"{counts['ok']} / {counts['failed']} / {counts['excluded']}"
