"""`trtspec loadtest`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape

from trtspec.cli.command import command as make_command
from trtspec.cli.command import examples, spec_argument
from trtspec.cli.failures import INTERRUPTED, exit_code, show_error
from trtspec.cli.output import Sink
from trtspec.spec import ARMS, load_spec

if TYPE_CHECKING:
    from trtspec.loadtest import RunResult

__all__ = ["command"]


def _concurrency(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    parts = value.replace(" ", "").split(",")
    if not all(part.isdecimal() and 1 <= int(part) <= 4096 for part in parts):
        raise click.BadParameter("numbers from 1 to 4096 separated by commas, e.g. 1,4,16")
    return tuple(map(int, parts))


def _arm_urls(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str] | None:
    urls: dict[str, str] = {}
    for value in values:
        arm, _, address = value.partition("=")
        host, _, port = address.rpartition(":")
        if arm not in ARMS or not host or not port.isdecimal():
            raise click.BadParameter(f"{value!r} is not ARM=HOST:PORT (gRPC) with ARM {' or '.join(ARMS)}")
        urls[arm] = address
    return urls or None


@make_command(
    epilog=examples(
        "trtspec loadtest",
        "trtspec loadtest trtspec.yaml --concurrency 1,4,16 --requests 200",
        "trtspec loadtest --prompts mine.jsonl --draft-length 6 --out runs/six",
        "trtspec loadtest --arm-url speculative=gpu1:8001 --arm-url baseline=gpu2:8001",
        "trtspec loadtest --output json | jq .comparison.verdict",
    )
)
@spec_argument
@click.option(
    "--arm-url", "urls", multiple=True, metavar="ARM=HOST:PORT", callback=_arm_urls,
    help="gRPC address of a running server, once for each arm. Default: both servers are started and stopped.",
)  # fmt: skip
@click.option("--concurrency", metavar="N,…", callback=_concurrency, help="Requests in flight, one level each.")
@click.option("--requests", type=click.IntRange(min=1), help="Measured requests per arm and concurrency.")
@click.option("--warmup", type=click.IntRange(min=0), help="Requests per arm before measuring starts.")
@click.option(
    "--prompts", metavar="FILE", help="builtin, random, or a JSONL file with id, category, prompt, max_tokens."
)
@click.option("--max-tokens", type=click.IntRange(min=1), help="Output limit. Default: each prompt's own.")
@click.option("--draft-length", type=click.IntRange(1, 64), help="Tokens drafted per round. Default: the server's.")
@click.option("--temperature", type=click.FloatRange(0, 10), help="0: greedy, so that both arms must agree.")
@click.option("--chat-template", type=click.Choice(["auto", "never"]), help="auto: the target's, when it has one.")
@click.option("--seed", type=click.IntRange(min=0), help="Order of prompts, sampling, bootstrap.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds until a request counts as failed."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder of this run. Default: a new one in runs/<name>/, where `trtspec report` looks.",
)
@click.option("--report/--no-report", default=True, show_default=True, help="Render report.html and CSV afterwards.")
def command(sink: Sink, spec_path: Path, *, report: bool, **overrides: Any) -> int | None:
    """Measure speculation against the baseline: the same prompts in both arms, paired and interleaved.

    Options left out come from the spec's loadtest section. Every request is written to the run's requests.jsonl as it
    ends, so a run that is interrupted keeps what it measured.
    """
    from trtspec.cli.load_view import LoadView
    from trtspec.loadtest import run, run_options

    spec_file = load_spec(spec_path)
    options = run_options(spec_file, **{**overrides, "prompts": _from_here(overrides["prompts"])})
    with LoadView(sink) as view:
        result = run(spec_file, options, sink, view.show)
    _show(sink, result, report=report)
    if result.interrupted:
        sink.err.print("[bold]interrupted:[/] this is what had been measured")
        return INTERRUPTED
    if result.failure is not None:
        # the result is on stdout already; only the message belongs beside it
        show_error(result.failure, replace(sink, mode="human"))
        return exit_code(result.failure)
    return None


def _from_here(prompts: str | None) -> str | None:
    """A file named on the command line belongs to the current folder; one named in the spec to the spec's."""
    return prompts if prompts in {None, "builtin", "random"} else str(Path(str(prompts)).absolute())


def _show(sink: Sink, result: RunResult, *, report: bool) -> None:
    from trtspec.reports import load_report, open_run, write_report
    from trtspec.reports.console import print_report

    source = open_run(result.path)
    data = load_report(source)
    lines = [f"run: {escape(str(result.path))}"]
    if report:
        lines.append(f"report: {escape(str(write_report(source, data).html))}")

    def human(console: Console) -> None:
        print_report(console, data)
        console.print("\n" + "\n".join(lines))

    sink.result(result.summary, human, quiet=str(result.path))
