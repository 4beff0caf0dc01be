"""The command reference (docs/cli.md), generated from the commands themselves."""

from __future__ import annotations

import click

from trtspec.cli.failures import EXIT_CODES, INTERRUPTED
from trtspec.cli.main import COMMANDS, cli

__all__ = ["cli_reference"]

_WIDTH = 100


def cli_reference() -> str:
    """Markdown: every command's help as the terminal shows it, and the exit codes."""
    sections = [_HEAD, _help_block("trtspec", cli, None)]
    parent = click.Context(cli, info_name="trtspec", max_content_width=_WIDTH, terminal_width=_WIDTH)
    for name in COMMANDS:
        command = cli.get_command(parent, name)
        assert command is not None, name
        sections += _help_blocks(f"trtspec {name}", command, parent)
    return "\n".join([*sections, _exit_codes()])


_HEAD = """# Command reference

Generated from the commands' own help by `scripts/make-docs`; a test fails when it is stale.
"""


def _help_blocks(title: str, command: click.Command, parent: click.Context) -> list[str]:
    """The command's block, and one for each command below it."""
    blocks = [_help_block(title, command, parent)]
    if isinstance(command, click.Group):
        inner = click.Context(command, info_name=title.removeprefix("trtspec "), parent=parent)
        for name, child in command.commands.items():
            blocks.append(_help_block(f"{title} {name}", child, inner, name))
    return blocks


def _help_block(title: str, command: click.Command, parent: click.Context | None, name: str | None = None) -> str:
    context = click.Context(
        command,
        info_name=name or title.removeprefix("trtspec "),
        parent=parent,
        max_content_width=_WIDTH,
        terminal_width=_WIDTH,
    )
    return f"## {title}\n\n```text\n{command.get_help(context)}\n```\n"


def _exit_codes() -> str:
    rows = [f"| {code} | `{kind.__name__}` | {(kind.__doc__ or '').splitlines()[0]} |" for kind, code in EXIT_CODES]
    lines = [
        "## Exit codes",
        "",
        "Never 0 on failure. The first row that fits decides; a request that a server refuses (`RequestFailed` with a",
        "code like `invalid_request`) was asked for wrongly and is 2.",
        "",
        "| code | error | meaning |",
        "|---|---|---|",
        "| 0 | | success |",
        *rows,
        f"| {INTERRUPTED} | | interrupted with Ctrl-C |",
        "",
    ]
    return "\n".join(lines)
