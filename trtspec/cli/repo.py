"""`trtspec repo`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax

from trtspec.cli.command import command as make_command
from trtspec.cli.command import examples, spec_argument
from trtspec.cli.output import Sink
from trtspec.repository import GeneratedRepository, generate, preview
from trtspec.spec import ARMS, load_spec

__all__ = ["command"]

_FEW = 12


@make_command(
    epilog=examples(
        "trtspec repo",
        "trtspec repo my-pair.yaml --arm baseline",
        "trtspec repo --diff",
        "trtspec repo --output json",
    )
)
@spec_argument
@click.option("--arm", type=click.Choice(ARMS), default=None, help="Only this arm (default: both).")
@click.option("--diff", is_flag=True, help="Show what would change; write nothing.")
def command(sink: Sink, spec_path: Path, arm: str | None, diff: bool) -> None:
    """Generate the Triton model repository of both arms from the built engines.

    Writes model_repo/<name>/<arm>/ beside the spec. Unchanged files are not touched, files that no longer belong
    there are removed, files that you added are left alone.
    """
    spec_file = load_spec(spec_path)
    arms = [known for known in ARMS if arm in (None, known)]
    made = preview(spec_file, arms) if diff else generate(spec_file, arms)
    for name in made.foreign:
        sink.note(f"[yellow]left alone:[/] {escape(name)} was not made by trtspec")
    data = {
        "schema": 1,
        "arms": {name: str(path) for name, path in made.arms.items()},
        "changed": made.changed,
        "unchanged": made.unchanged,
        "removed": made.removed,
        "foreign": made.foreign,
        "dry_run": diff,
        **({"diff": made.diff} if diff else {}),
    }
    sink.result(data, lambda out: _show(out, made, diff=diff), "\n".join(str(path) for path in made.arms.values()))


def _show(out: Console, made: GeneratedRepository, *, diff: bool) -> None:
    if diff and made.diff:
        out.print(Syntax(made.diff, "diff", background_color="default") if out.is_terminal else escape(made.diff))
    tense = "would be " if diff else ""
    for name in _shortened(made.changed):
        out.print(f"  [green]{tense}written[/]  {escape(name)}")
    for name in made.removed:
        out.print(f"  [red]{tense}removed[/]  {escape(name)}")
    out.print(f"{len(made.changed)} {tense}written, {len(made.removed)} {tense}removed, {made.unchanged} unchanged")
    for arm, path in made.arms.items():
        out.print(f"  {arm:<12} {escape(str(path))}")


def _shortened(names: list[str]) -> list[str]:
    """The files themselves when they are few, else each model with its number of files."""
    if len(names) <= _FEW:
        return names
    models = Counter("/".join(name.split("/")[:2]) for name in names)
    return [f"{model} ({count} {'file' if count == 1 else 'files'})" for model, count in models.items()]
