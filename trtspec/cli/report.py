"""`trtspec report`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape

from trtspec.cli.command import command as make_command
from trtspec.cli.command import examples
from trtspec.cli.failures import exit_code, show_error
from trtspec.cli.output import Sink
from trtspec.errors import ThresholdFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trtspec.reports import GateResult, RunSource

__all__ = ["command"]

_PATH = click.Path(path_type=Path)
_SPEC = Path("trtspec.yaml")


@make_command(
    epilog=examples(
        "trtspec report",
        "trtspec report runs/demo/20260101-120000-1a2b --open",
        "trtspec report runs/demo/* --html trend.html",
        "trtspec report --markdown summary.md --junit trtspec.xml",
        "trtspec report --fail-if 'speedup.output_tokens_per_second.low < 1.0'",
        "trtspec report other/requests.jsonl --html report.html --csv tables",
        "trtspec report --output json | jq .comparison.verdict",
    )
)
@click.argument("runs", metavar="[RUN]…", type=_PATH, nargs=-1)
@click.option(
    "--spec", "spec_path", type=_PATH, default=_SPEC, show_default=True,
    help="Whose newest run is shown when RUN is left out.",
)  # fmt: skip
@click.option("--html", type=_PATH, help="The page. Default: report.html in the run's folder.")
@click.option("--csv", type=_PATH, help="Folder of the CSV files. Default: the run's folder.")
@click.option("--markdown", type=_PATH, help="A summary for a pull request; /dev/stdout prints it.")
@click.option("--junit", type=_PATH, help="Gates and results as JUnit XML.")
@click.option("--json", type=_PATH, help="The summary as JSON (docs/summary.schema.json).")
@click.option("--parquet", type=_PATH, help="Folder of requests.parquet and metrics.parquet (extra parquet).")
@click.option("--aiperf", type=_PATH, help="Folder of exports in AIPerf's names, one folder an arm and load.")
@click.option(
    "--fail-if", "gates", multiple=True, metavar="CONDITION",
    help="Exit with 7 when it holds: PATH < NUMBER (also <= > >= == !=), PATH a dotted path into the summary.",
)  # fmt: skip
@click.option("--open/--no-open", "show", default=False, show_default=True, help="Open the page in the browser.")
def command(
    sink: Sink, runs: tuple[Path, ...], spec_path: Path, *, gates: tuple[str, ...], show: bool, **places: Path | None
) -> int | None:
    """Render a run as one HTML page, CSV files and a table; several runs as a comparison over time.

    RUN is a run's folder or a file of the form of its requests.jsonl; left out, it is the newest run of the spec,
    wherever --out put it. Everything is computed anew from the requests. The page is one file that needs no network.
    Gates are held against the newest of several runs.
    """
    from trtspec.reports import parse_gates, require_gates

    wanted = parse_gates(gates)
    render = _history if len(runs) > 1 else _single
    page, results = render(sink, _sources(runs, spec_path), places, wanted)
    if show:
        click.launch(page.resolve().as_uri())
    try:
        require_gates(results)
    except ThresholdFailed as failure:
        # the result is on stdout already; only the message belongs beside it
        show_error(failure, replace(sink, mode="human"))
        return exit_code(failure)
    return None


def _sources(runs: tuple[Path, ...], spec_path: Path) -> list[RunSource]:
    from trtspec.reports import newest_anywhere, newest_run, open_run
    from trtspec.spec import load_spec

    if runs:
        return [open_run(run) for run in runs]
    if spec_path == _SPEC and not spec_path.exists() and Path("runs").is_dir():
        return [newest_anywhere(Path("runs"))]
    return [newest_run(load_spec(spec_path))]


def _single(
    sink: Sink, sources: Sequence[RunSource], given: Mapping[str, Path | None], gates: Sequence[Any]
) -> tuple[Path, Sequence[GateResult]]:
    from trtspec.reports import Places, check_gates, load_report, write_exports, write_report
    from trtspec.reports.console import print_report

    (source,) = sources
    places = Places(**given)
    data = load_report(source)
    results = check_gates(data.summary, gates)
    files = write_report(source, data, html=places.html, csv=places.csv)
    exports = write_exports(data, places, results)

    def human(console: Console) -> None:
        print_report(console, data)
        console.print()
        for name, path in {"report": files.html, "tables": files.csv[0].parent, **exports}.items():
            console.print(f"{name}: {escape(str(path))}{'/*.csv' if name == 'tables' else ''}")
        _print_gates(console, results)

    sink.result(data.summary, human, quiet=str(files.html))
    return files.html, results


def _history(
    sink: Sink, sources: Sequence[RunSource], given: Mapping[str, Path | None], gates: Sequence[Any]
) -> tuple[Path, Sequence[GateResult]]:
    from trtspec.reports import Places, check_gates, history_json, load_history, write_history
    from trtspec.reports.history_page import print_history

    history = load_history(sources)
    results = check_gates(history.runs[-1].data.summary, gates)
    page, exports = write_history(history, Places(**given), results)

    def human(console: Console) -> None:
        print_history(console, history)
        for name, path in {"report": page, **exports}.items():
            console.print(f"{name}: {escape(str(path))}")
        _print_gates(console, results)

    sink.result(history_json(history), human, quiet=str(page))
    return page, results


def _print_gates(console: Console, results: Sequence[GateResult]) -> None:
    for result in results:
        mark = "[red]failed[/]" if result.failed else "[green]passed[/]"
        console.print(f"gate {mark}: {escape(result.text)}")
