"""`trtspec tune`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape

from trtspec.cli.arm_addresses import arms_of_addresses, require_own_options, spec_is_named, spec_or_addresses
from trtspec.cli.command import command as make_command
from trtspec.cli.command import command_line, examples, spec_argument
from trtspec.cli.failures import INTERRUPTED, exit_code, show_error
from trtspec.cli.load_options import arm_options, read_concurrency, read_seconds, read_share
from trtspec.cli.numbers import FiniteRange
from trtspec.cli.output import Sink
from trtspec.errors import UsageError
from trtspec.spec import SpecFile, load_spec

if TYPE_CHECKING:
    from trtspec.tuning import TuneResult

__all__ = ["command"]

_PATH = click.Path(path_type=Path)
_OWN = ("lengths", "budget", "tolerance")
_LONGEST = 64
_BESIDE_RESUME = {"resumed", "write", "progress", "output", "debug"}


def _lengths(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    found: set[int] = set()
    for part in value.replace(" ", "").split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last <= _LONGEST:
            raise click.BadParameter(f"{part!r} is no draft length from 1 to {_LONGEST}, e.g. 1,2,4 or 1-8")
        found.update(range(first, last + 1))
    return tuple(sorted(found))


@make_command(
    epilog=examples(
        "trtspec tune",
        "trtspec tune trtspec.yaml --budget 20m --write",
        "trtspec tune --concurrency 1,4,16,64 --lengths 1-8",
        "trtspec tune --prompts mine.jsonl --max-tokens 256",
        "trtspec tune --resume runs/my-pair/tune-20260101-120000-ab12",
        "trtspec tune --arm-url baseline=http://gpu1:8000 --arm-url speculative=http://gpu2:8000",
        "trtspec tune --output json | jq .recommendation.values",
    )
)
@spec_argument
@arm_options
@click.option("--lengths", metavar="N,…", callback=_lengths, help="Draft lengths to try. Default: up to the engine's.")
@click.option("--concurrency", metavar="N,…", callback=read_concurrency, help="Requests in flight, one level each.")
@click.option(
    "--budget", metavar="TIME", callback=read_seconds,
    help="Time to measure, without the servers' start. Default: 20m.",
)  # fmt: skip
@click.option(
    "--tolerance", metavar="SHARE", callback=read_share,
    help="Lengths within it are as good; the shortest wins. Default: 2%.",
)  # fmt: skip
@click.option("--write", is_flag=True, help="Put the result into the spec; its comments and order stay.")
@click.option("--prompts", metavar="FILE", help="builtin, or a JSONL file with id, category, prompt, max_tokens.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Output limit. Default: each prompt's own.")
@click.option("--temperature", type=FiniteRange(0, 10), help="Of sampling, as in production.")
@click.option("--chat-template", type=click.Choice(["auto", "never"]), help="auto: the target's, when it has one.")
@click.option("--tokenizer", metavar="FOLDER", type=_PATH, help="Checkpoint whose chat template is used.")
@click.option("--warmup", type=click.IntRange(min=0), help="Requests before measuring starts, for each length.")
@click.option("--seed", type=click.IntRange(min=0), help="Choice and order of prompts, order of lengths.")
@click.option("--timeout", type=FiniteRange(min=0, min_open=True), help="Seconds until a request has failed.")
@click.option("--resume", "resumed", metavar="FOLDER", type=_PATH, help="Go on with an interrupted search.")
@click.option("--out", type=_PATH, help="Folder of the result. Default: a new one in runs/<name>/.")
@click.option(
    "--progress", type=click.Choice(["auto", "plain", "json", "none"]), default="auto", show_default=True,
    help="On stderr: a live view on a terminal, lines now and then, one JSON object a line, or nothing.",
)  # fmt: skip
def command(sink: Sink, spec_path: Path, **options: Any) -> int | None:
    """Find the draft length for each load: all lengths race against the baseline on the same prompts.

    After every rung those that are shown to be slower go, and the others get twice the prompts. The winners are
    measured again on prompts that the race never saw; that is the gain that is told. The result is the schedule for
    the spec (--write), a table of every cell, and a page with the Pareto chart and the heat map. Ctrl-C keeps what was
    measured (--resume goes on with it).
    """
    from trtspec.cli.tune_view import TuneView

    write, resumed, progress = options.pop("write"), options.pop("resumed"), options.pop("progress")
    spec_file = _spec(spec_path, options, resumed)
    if write and spec_file is None:
        raise UsageError("--write needs a spec", fix="name it: trtspec tune SPEC --write")
    with TuneView(sink, progress) as view:
        result = _searched(sink, spec_file, options, resumed, view.show)
    return _finish(sink, spec_path, spec_file, result, write=write)


def _spec(path: Path, options: Mapping[str, Any], resumed: Path | None) -> SpecFile | None:
    if resumed is not None:
        require_own_options(_BESIDE_RESUME)
    if resumed is not None and not spec_is_named():
        from trtspec.tuning.run import made_from_spec

        return load_spec(path) if made_from_spec(resumed) else None
    return spec_or_addresses(path, options["a_url"])


def _searched(
    sink: Sink, spec_file: SpecFile | None, options: dict[str, Any], resumed: Path | None, listener: Any
) -> TuneResult:
    from trtspec.tuning import resume, tune, tune_options

    own = {name: options.pop(name) for name in _OWN}
    if resumed is not None:
        return resume(spec_file, resumed, sink, listener)
    return tune(spec_file, tune_options(spec_file, own, **arms_of_addresses(options)), sink, listener)


def _finish(sink: Sink, spec_path: Path, spec_file: SpecFile | None, result: TuneResult, *, write: bool) -> int | None:
    page = _page(result)
    changed = _changed(spec_file, result, write=write)
    data = {**result.data, "spec_diff": changed}
    sink.result(data, lambda console: _print(console, result, page, changed), str(result.path))
    if result.interrupted:
        sink.err.print("[bold]interrupted:[/] this is what had been measured")
        again = command_line("tune", spec_path, "--resume", shlex.quote(str(result.path)))
        sink.err.print(f"[bold]next:[/] {escape(again)}")
        return INTERRUPTED
    if result.failure is not None:
        show_error(result.failure, replace(sink, mode="human"))
        return exit_code(result.failure)
    if write and changed:
        sink.note(f"{escape(str(spec_path))} is changed; the repository follows it with: trtspec repo")
    elif changed:
        sink.note("[bold]next:[/] --write puts this into the spec")
    return None


def _page(result: TuneResult) -> Path:
    from trtspec.files import write_text
    from trtspec.reports.tuning_page import render_tuning_html

    path = result.path / "tuning.html"
    write_text(path, render_tuning_html(result.data))
    return path


def _changed(spec_file: SpecFile | None, result: TuneResult, *, write: bool) -> str | None:
    """The diff of the spec, which is written when asked for; None without a spec or anything to write."""
    from trtspec.tuning.writing import spec_change, write_change

    values = result.data["recommendation"]["values"]
    if spec_file is None or not values or not result.data["finished"]:
        return None
    text, diff = spec_change(spec_file, values)
    if write and diff:
        write_change(spec_file, text)
    return diff or None


def _print(console: Console, result: TuneResult, page: Path, diff: str | None) -> None:
    from trtspec.cli.tune_view import print_tuning

    print_tuning(console, result.data, diff)
    console.print(f"result: {escape(str(result.path / 'tuning.json'))}")
    console.print(f"charts: {escape(str(page))}")
