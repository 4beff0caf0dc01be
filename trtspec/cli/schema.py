"""`trtspec schema`."""

from __future__ import annotations

import json

import click

from trtspec.cli.command import command as make_command
from trtspec.cli.command import examples
from trtspec.cli.output import Sink
from trtspec.spec import spec_json_schema

__all__ = ["command"]


@make_command(epilog=examples("trtspec schema > trtspec.schema.json"))
def command(sink: Sink) -> None:
    """Print the JSON Schema of trtspec.yaml, for editors and other tools."""
    del sink
    click.echo(json.dumps(spec_json_schema(), indent=2, ensure_ascii=False))
