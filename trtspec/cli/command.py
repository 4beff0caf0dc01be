"""What every command has: --output, --debug, the spec argument, and errors turned into exit codes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.markup import escape

from trtspec.cli.failures import INTERRUPTED, exit_code, show_error
from trtspec.cli.output import Sink
from trtspec.errors import TrtspecError

__all__ = ["command", "examples", "spec_argument"]

Function = TypeVar("Function", bound=Callable[..., Any])


def examples(*lines: str) -> str:
    """The epilog of a command's help: one example a line."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def spec_argument(function: Function) -> Function:
    """The SPEC argument (default trtspec.yaml), passed as `spec_path`."""
    return click.argument("spec_path", metavar="[SPEC]", type=click.Path(path_type=Path), default=Path("trtspec.yaml"))(
        function
    )


def command(*, epilog: str) -> Callable[[Callable[..., int | None]], click.Command]:
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
        return click.command(epilog=epilog)(run)

    return decorate


def _guarded(call: Callable[[], int | None], sink: Sink, *, debug: bool) -> int:
    try:
        return call() or 0
    except TrtspecError as error:
        if debug:
            sink.err.print_exception()
        show_error(error, sink)
        return exit_code(error)
    except KeyboardInterrupt:
        sink.err.print("[bold]interrupted[/]")
        return INTERRUPTED
    except click.ClickException:
        raise
    except BrokenPipeError:
        return 1
    except Exception as error:
        if debug:
            raise
        sink.err.print(f"[bold red]unexpected error:[/] {escape(f'{type(error).__name__}: {error}')}")
        sink.err.print("[bold]next:[/] run the same command with --debug and report what it prints")
        return 1
