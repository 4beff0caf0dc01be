"""`trtspec doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape

from trtspec.cli.command import command as make_command
from trtspec.cli.command import examples
from trtspec.cli.failures import exit_code
from trtspec.cli.output import Sink
from trtspec.doctor.block import issue_block, to_json
from trtspec.doctor.examination import examine
from trtspec.doctor.verdicts import RuntimeVerdict, verdicts
from trtspec.errors import PairError, SpecError
from trtspec.spec import SpecFile, load_spec

__all__ = ["command"]

DEFAULT_SPEC = Path("trtspec.yaml")


@make_command(epilog=examples("trtspec doctor", "trtspec doctor --output json", "trtspec doctor spec.yaml --require"))
@click.argument("spec_path", metavar="[SPEC]", type=click.Path(path_type=Path), required=False)
@click.option("--require", is_flag=True, help="Exit with 3 when the spec's runtime (none: torch) cannot be used here.")
def command(sink: Sink, spec_path: Path | None, require: bool) -> int | None:
    """Say what this machine can be used for, and why not for the rest.

    Prints a block to paste into an issue (GPUs, driver, versions, docker, disk, ports; no names of users or folders of
    yours) and a verdict for each runtime. SPEC gives ports and the TensorRT-LLM that is meant; without it trtspec.yaml
    is used when it is there. Nothing is changed, and what is missing is no failure.
    """
    spec_file = _spec_file(sink, spec_path)
    found = examine(spec_file)
    runtimes = verdicts(found)
    chosen = _verdict_of(runtimes, spec_file.spec.runtime if spec_file else "torch")
    data: dict[str, Any] = {**to_json(found, runtimes), "runtime": chosen.runtime, "usable": chosen.usable}
    summary = f"{chosen.runtime}: {'usable' if chosen.usable else 'not usable here'}"
    sink.result(data, lambda console: _print(console, issue_block(found, runtimes), runtimes), summary)
    return exit_code(PairError(summary)) if require and not chosen.usable else None


def _spec_file(sink: Sink, path: Path | None) -> SpecFile | None:
    """The spec given, which must be valid, or the one in this folder, which is left out when it is not."""
    if path is not None:
        return load_spec(path)
    if not DEFAULT_SPEC.is_file():
        return None
    try:
        return load_spec(DEFAULT_SPEC)
    except SpecError as error:
        sink.note(f"[yellow]{DEFAULT_SPEC} is not used:[/] {escape(error.message)}")
        return None


def _verdict_of(runtimes: Sequence[RuntimeVerdict], name: str) -> RuntimeVerdict:
    return next(runtime for runtime in runtimes if runtime.runtime == name)


def _print(console: Console, block: str, runtimes: Sequence[RuntimeVerdict]) -> None:
    console.print(escape(block))
    console.print()
    for runtime in runtimes:
        mark = "[green]usable[/]" if runtime.usable else "[red]not usable here[/]"
        reasons = dict.fromkeys(reason for step in runtime.steps for reason in step.reasons)
        why = f" ({escape('; '.join(reasons))})" if not runtime.usable and not runtime.fixes else ""
        console.print(f"[bold]{runtime.runtime}[/]: {mark}{why}")
        for where, fix in runtime.fixes:
            console.print(f"  [green]{where}:[/] {escape(fix)}")
