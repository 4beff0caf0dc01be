"""A history as one HTML page, as Markdown, and for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from trtspec import __version__
from trtspec.reports.formats import Table, percent_text, ratio_text, text_cell
from trtspec.reports.gates import GateResult
from trtspec.reports.history import Change, History, PastRun
from trtspec.reports.history_charts import history_charts
from trtspec.reports.markdown import gate_lines, markdown_table, markdown_text
from trtspec.reports.page import asset, environment, plotly_data
from trtspec.reports.reading import Interval
from trtspec.units import bounds_text

__all__ = ["change_texts", "print_history", "render_history_html", "render_history_markdown"]

# a value longer than this is cut in the table of differences
_LONGEST = 60
# columns of a terminal that hold every fact of a run
_WIDE = 120


def change_texts(history: History) -> list[str]:
    """From the last run but one to the last, a sentence for each load."""
    return [_change(change) for change in history.changes()]


def _change(change: Change) -> str:
    word = {True: "a clear change", False: "within the intervals", None: "no interval tells"}[change.clear]
    return f"{change.load}: {ratio_text(change.before.estimate)} → {ratio_text(change.after.estimate)}, {word}"


def render_history_html(history: History) -> str:
    """The whole page; the same runs give the same bytes."""
    charts = history_charts(history)
    return str(
        environment()
        .get_template("history.html.j2")
        .render(
            title=f"trtspec: {len(history.runs)} runs",
            subtitle=[f"{len(history.runs)} runs", f"{history.runs[0].moment} to {history.runs[-1].moment} UTC"],
            changes=change_texts(history),
            notes=[text[:1].upper() + text[1:] + "." for text in history.moved()],
            charts=charts,
            runs=_runs(history),
            differences=_differences(history),
            figures={chart.id: chart.variants for chart in charts if chart.variants},
            version=__version__,
            css=asset("report.css"),
            js=asset("report.js"),
            plotly=plotly_data(),
        )
    )


def _runs(history: History) -> Table:
    rows = tuple(tuple(map(text_cell, (*_facts(run), *_speedups(history, run)))) for run in history.runs)
    return Table(("Run", "Began (UTC)", "Verdict", "Requests", "Accepted", *history.loads), rows, frozenset({1, 2}))


def _facts(run: PastRun) -> tuple[str, ...]:
    rate = run.data.acceptance.get("acceptance_rate")
    code = str(run.data.comparison.get("verdict_code") or "–").capitalize()
    return run.name, run.moment, code, str(len(run.data.table)), "–" if rate is None else percent_text(rate)


def _speedups(history: History, run: PastRun) -> list[str]:
    found = [run.speedup(load) for load in history.loads]
    return ["–" if interval is None else ratio_text(interval.estimate) for interval in found]


def _differences(history: History) -> Table:
    rows = tuple(
        (text_cell(key), *(text_cell(_short(value)) for value in values)) for key, values in history.differences()
    )
    columns = ("What", *(run.name for run in history.runs))
    return Table(columns, rows, frozenset(range(len(columns))))


def _short(value: str) -> str:
    return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1]}…"


def render_history_markdown(history: History, gates: Sequence[GateResult] = ()) -> str:
    """The runs, the last change, gates, and what differs."""
    columns = ("run", "began (UTC)", "verdict", "requests", "accepted", *map(markdown_text, history.loads))
    rows = [[markdown_text(text) for text in (*_facts(run), *_speedups(history, run))] for run in history.runs]
    changes = "\n".join(f"- {markdown_text(text)}" for text in change_texts(history))
    moved = "\n".join(f"- ⚠️ {markdown_text(text)}" for text in history.moved())
    head = f"### trtspec: {len(history.runs)} runs"
    parts = [
        head,
        gate_lines(gates),
        changes,
        moved,
        markdown_table(columns, rows, left=3),
        _markdown_differences(history),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown_differences(history: History) -> str:
    rows = [
        [markdown_text(key), *(markdown_text(_short(value)) for value in values)]
        for key, values in history.differences()
    ]
    if not rows:
        return ""
    columns = ("what", *(markdown_text(run.name) for run in history.runs))
    table = markdown_table(columns, rows, left=len(columns))
    return f"<details><summary>What differs between the runs</summary>\n\n{table}\n\n</details>"


def _run_table(history: History, *, wide: bool) -> RichTable:
    """A row a run and load; when it began and how many requests it has only on a wide terminal."""
    table = RichTable(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    facts = {"run": 0, **({"began (UTC)": 1} if wide else {}), "verdict": 2, **({"requests": 3} if wide else {}),
             "accepted": 4}  # fmt: skip
    for column in (*facts, "load", "speed-up"):
        table.add_column(column, no_wrap=True)
    for run in history.runs:
        told = _facts(run)
        shown = [escape(told[index]) for index in facts.values()]
        for load in history.loads:
            if (found := run.speedup(load)) is not None:
                table.add_row(*shown, escape(load), _with_bounds(found))
                shown = [""] * len(shown)
        if any(shown):
            table.add_row(*shown, "–", "–")
    return table


def _with_bounds(found: Interval) -> str:
    bounds = "" if found.low is None or found.high is None else f" ({bounds_text(found.low, found.high)})"
    return f"[bold]{ratio_text(found.estimate)}[/]{bounds}"


def print_history(console: Console, history: History) -> None:
    """The runs as a table, the last change, and what differs."""
    console.print(_run_table(history, wide=console.width >= _WIDE))
    for text in change_texts(history):
        console.print(f"[bold]change[/]      {escape(text)}")
    for text in history.moved():
        console.print(f"[yellow]note[/]        {escape(text)}")
    for key, values in history.differences():
        shown = " → ".join(dict.fromkeys(_short(value) for value in values))
        console.print(f"[dim]differs[/]     {escape(key)}: {escape(shown)}")
