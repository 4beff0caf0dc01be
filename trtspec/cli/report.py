"""`trtspec report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape

from trtspec.cli.command import command as make_command
from trtspec.cli.command import examples
from trtspec.cli.output import Sink

if TYPE_CHECKING:
    from trtspec.reports import RunSource

__all__ = ["command"]


@make_command(
    epilog=examples(
        "trtspec report",
        "trtspec report runs/demo/20260101-120000-1a2b --open",
        "trtspec report other/requests.jsonl --html report.html --csv tables",
        "trtspec report --output json | jq .comparison.verdict",
    )
)
@click.argument("run", metavar="[RUN]", type=click.Path(path_type=Path), required=False)
@click.option(
    "--spec", "spec_path", type=click.Path(path_type=Path), default=Path("trtspec.yaml"), show_default=True,
    help="Whose newest run is shown when RUN is left out.",
)  # fmt: skip
@click.option("--html", type=click.Path(path_type=Path), help="The page. Default: report.html in the run's folder.")
@click.option("--csv", type=click.Path(path_type=Path), help="Folder of the CSV files. Default: the run's folder.")
@click.option("--open/--no-open", "show", default=False, show_default=True, help="Open the page in the browser.")
def command(
    sink: Sink, run: Path | None, spec_path: Path, html: Path | None, csv: Path | None, *, show: bool
) -> int | None:
    """Render a run as one HTML page, CSV files and a table.

    RUN is a run's folder or a file of the form of its requests.jsonl; left out, it is the newest run of the spec.
    Everything is computed anew from the requests. The page is one file that needs no network.
    """
    from trtspec.reports import load_report, write_report
    from trtspec.reports.console import print_report

    source = _source(run, spec_path)
    data = load_report(source)
    files = write_report(source, data, html=html, csv=csv)

    def human(console: Console) -> None:
        print_report(console, data)
        console.print(f"\nreport: {escape(str(files.html))}\ntables: {escape(str(files.csv[0].parent))}/*.csv")

    sink.result(data.summary, human, quiet=str(files.html))
    if show:
        click.launch(files.html.resolve().as_uri())
    return None


def _source(run: Path | None, spec_path: Path) -> RunSource:
    from trtspec.reports import newest_run, open_run
    from trtspec.spec import load_spec

    return open_run(run) if run is not None else newest_run(load_spec(spec_path))
