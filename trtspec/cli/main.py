"""The `trtspec` command and its sub-commands, imported only when they run."""

from __future__ import annotations

import difflib
import importlib
import io
import sys
from typing import Any

import click

from trtspec import __version__

__all__ = ["COMMANDS", "cli", "main"]

# name → (one-line help for the list, in the order in which a user needs them); the module is trtspec.cli.<name>
COMMANDS = {
    "init": "Write a commented trtspec.yaml.",
    "doctor": "Say what this machine can be used for, and why not.",
    "check": "Tell whether target and draft belong together.",
    "rules": "List the checks that exist, or explain one.",
    "plan": "Tell whether the pair fits and pays, and what it costs.",
    "build": "Build the engines: baseline, target and draft.",
    "engines": "List, inspect and remove built engines.",
    "repo": "Generate the Triton model repository of both arms.",
    "serve": "Start Triton on an arm's repository.",
    "status": "Tell which servers run and what they have done.",
    "ask": "Stream one answer and show which tokens were drafted.",
    "verify": "Show that speculation does not change answers.",
    "loadtest": "Measure speculation against the baseline, paired and interleaved.",
    "tune": "Find the draft length for each load, and write it into the spec.",
    "report": "Render a run as HTML, CSV and a table.",
    "distill": "Make a draft for the target: prompts, answers, training, export.",
    "demo": "Do all of it with a real pair of small models.",
    "schema": "Print the JSON Schema of trtspec.yaml.",
}


class _LazyGroup(click.Group):
    """Knows its commands by name and imports a command's module when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"trtspec.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean {near[0]!r}?", ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # while a command's module was still being imported
            click.echo("interrupted", err=True)
            sys.exit(130)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with `trtspec demo`, or with `trtspec init` for your own pair.",
)
@click.version_option(__version__, prog_name="trtspec")
def cli() -> None:
    """Find out whether speculative decoding pays for your models, and ship it."""


def main() -> None:
    """Entry point of the console script."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a character that its encoding lacks is no reason to fail
        sys.stdout.reconfigure(errors="backslashreplace")
    cli(prog_name="trtspec")
