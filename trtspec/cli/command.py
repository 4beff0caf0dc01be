"""What every command has: --output, --debug, the spec argument, and errors turned into exit codes."""

from __future__ import annotations

import errno
import shlex
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.markup import escape

from trtspec.cli.failures import INTERRUPTED, exit_code, show_error, show_json_failure
from trtspec.cli.output import Sink
from trtspec.errors import TrtspecError

__all__ = ["command", "command_line", "examples", "spec_argument"]

_SYSTEM_FIXES = {
    errno.ENOSPC: "free some space on that disk",
    errno.EDQUOT: "free some space: the quota is used up",
    errno.EACCES: "make it readable and writable for this user",
    errno.EPERM: "make it readable and writable for this user",
    errno.EROFS: "use a folder on a disk that can be written",
}

_SPEC = Path("trtspec.yaml")
Function = TypeVar("Function", bound=Callable[..., Any])


class _Command(click.Command):
    """Answers a command line that cannot be parsed in JSON when that was asked for; its help is in sections."""

    headings: Mapping[str, str] = {}
    """option → the section of the help that it stands in; those without one come last"""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {heading: [] for heading in self.headings.values()}
        for param in self.get_params(ctx):
            row = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if row is not None:
                heading = self.headings.get(param.name or "", "General" if self.headings else "Options")
                sections.setdefault(heading, []).append((_short_kind(row[0]), row[1]))
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        wants_json = "--output=json" in args or ("--output", "json") in pairwise(args)
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.ClickException as error:
            if wants_json:
                _show_usage_json(error)
            raise


def _short_kind(option: str) -> str:
    """`--seed INTEGER RANGE` as `--seed N`: the range itself stands in the help text."""
    return option.replace(" INTEGER RANGE", " N").replace(" FLOAT RANGE", " X")


def examples(*lines: str) -> str:
    """The epilog of a command's help: one example a line."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def spec_argument(function: Function) -> Function:
    """The SPEC argument (default trtspec.yaml), passed as `spec_path`."""
    return click.argument("spec_path", metavar="[SPEC]", type=click.Path(path_type=Path), default=_SPEC)(function)


def command_line(name: str, spec_path: Path, *options: str) -> str:
    """What to type next for the spec at `spec_path`, which is not named where it is the usual one."""
    spec = [] if spec_path == _SPEC else [shlex.quote(str(spec_path))]
    return " ".join(["trtspec", name, *spec, *options])


def command(
    *, epilog: str, headings: Mapping[str, str] | None = None
) -> Callable[[Callable[..., int | None]], click.Command]:
    """Make a click command of a function whose first parameter is the `Sink`.

    The function returns an exit code or None for 0. TrtspecError becomes a message and its exit code; Ctrl-C
    becomes 130; anything else one line, and a traceback with --debug.
    """

    def decorate(function: Callable[..., int | None]) -> click.Command:
        @wraps(function)
        def run(output: str, debug: bool, **arguments: Any) -> None:
            sink = Sink(mode=output)  # type: ignore[arg-type]  # click checked the choice
            sys.exit(_guarded(lambda: function(sink, **arguments), sink, debug=debug))

        options = [
            click.option(
                "--output", type=click.Choice(["human", "json", "quiet"]), default="human", show_default=True,
                help="Form of the result on stdout.",
            ),
            click.option("--debug", is_flag=True, help="Show tracebacks."),
        ]  # fmt: skip
        for option in options:
            run = option(run)
        made = click.command(cls=_Command, epilog=epilog)(run)
        made.headings = headings or {}
        return made

    return decorate


def _guarded(call: Callable[[], int | None], sink: Sink, *, debug: bool) -> int:
    try:
        return call() or 0
    except KeyboardInterrupt:
        if sink.mode == "json":
            show_json_failure("Interrupted", "interrupted", INTERRUPTED)
        sink.err.print("[bold]interrupted[/]")
        return INTERRUPTED
    except click.ClickException as error:
        if sink.mode == "json":
            _show_usage_json(error)
        raise
    except BrokenPipeError:
        return 1
    except Exception as error:
        known = error if isinstance(error, TrtspecError) else _of_the_system(error)
        if debug and known is None:
            raise
        if debug:
            sink.err.print_exception()
        return _unexpected(error, sink) if known is None else _expected(known, sink)


def _of_the_system(error: Exception) -> TrtspecError | None:
    """A full disk, a folder that may not be written: the system's word is the message."""
    if not isinstance(error, OSError) or error.strerror is None:
        return None
    files = [str(name) for name in (error.filename, error.filename2) if name is not None]
    return TrtspecError(error.strerror, where=" → ".join(files) or None, fix=_SYSTEM_FIXES.get(error.errno or 0))


def _expected(error: TrtspecError, sink: Sink) -> int:
    show_error(error, sink)
    return exit_code(error)


def _unexpected(error: Exception, sink: Sink) -> int:
    fix = "run the same command with --debug and report what it prints"
    if sink.mode == "json":
        show_json_failure(type(error).__name__, str(error), 1, fix=fix)
    sink.err.print(f"[bold red]unexpected error:[/] {escape(f'{type(error).__name__}: {error}')}")
    sink.err.print(f"[bold]next:[/] {fix}")
    return 1


def _show_usage_json(error: click.ClickException) -> None:
    show_json_failure(type(error).__name__, error.format_message(), error.exit_code)
