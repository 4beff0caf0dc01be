"""`trtspec build`."""

from __future__ import annotations

import signal
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trtspec.cli.build_view import show_preview
from trtspec.cli.command import command as make_command
from trtspec.cli.command import command_line, examples, spec_argument
from trtspec.cli.output import Sink
from trtspec.errors import UsageError
from trtspec.spec import ROLES, Role, SpecFile, load_spec
from trtspec.units import bytes_text, duration_text

if TYPE_CHECKING:
    from trtspec.building import BuildSettings, BuiltEngine

__all__ = ["command"]


@make_command(
    epilog=examples(
        "trtspec build",
        "trtspec build pair.yaml --role draft --force",
        "trtspec build pair.yaml --dry-run --output json",
        "trtspec build pair.yaml --in-docker 26.04",
    )
)
@spec_argument
@click.option("--role", "roles", type=click.Choice(ROLES), multiple=True, help="Only this engine (repeatable).")
@click.option("--force", is_flag=True, help="Build again even when the engine is there.")
@click.option("--dry-run", is_flag=True, help="Show what would be built and build nothing.")
@click.option("--reconvert", is_flag=True, help="Convert the checkpoint again as well (tensorrt_llm).")
@click.option("--jobs", type=click.IntRange(1, 64), help="Programs at once; default: as the GPUs allow (tensorrt_llm).")
@click.option("--full-hash", is_flag=True, help="Let keys cover every byte of the weights, not samples (tensorrt_llm).")
@click.option("--in-docker", "image", metavar="IMAGE", help="Run the programs in this image or tag (tensorrt_llm).")
def command(sink: Sink, spec_path: Path, roles: tuple[Role, ...], dry_run: bool, **options: Any) -> None:
    """Build the engines: baseline, target and draft (where a second model drafts).

    Reads Hugging Face folders (safetensors, sharded or not; for the torch runtime also one GGUF file; never pickles)
    and writes engines/NAME/ROLE/KEY. The key is a hash of the checkpoint's content and the options, so an engine
    that is there already is not built again. For runtime tensorrt_llm checkpoints are converted and quantized on
    the way; a build that was stopped goes on at the first step that is not finished.
    """
    spec_file = load_spec(spec_path)
    chosen = _chosen(spec_file, roles)
    settings = _settings(spec_file, options)
    if dry_run:
        from trtspec.building import build_preview

        plan = build_preview(spec_file, chosen, settings, sink)
        sink.result(plan, lambda console: show_preview(console, plan))
        return
    with _terminable():
        engines = _build(sink, spec_file, chosen, settings)
    _show(sink, spec_file, engines)


def _chosen(spec_file: SpecFile, asked: tuple[Role, ...]) -> list[Role]:
    """The roles to build, in their usual order."""
    for role in asked:
        if role not in spec_file.spec.roles:
            raise UsageError(f"there is no {role} to build: draft.method is {spec_file.spec.draft.method}",
                             where=str(spec_file.path), fix="leave out --role draft")  # fmt: skip
    return [role for role in spec_file.spec.roles if not asked or role in asked]


def _settings(spec_file: SpecFile, options: dict[str, Any]) -> BuildSettings:
    from trtspec.building import BuildSettings

    if spec_file.spec.runtime == "torch":
        names = {"reconvert": "--reconvert", "jobs": "--jobs", "full_hash": "--full-hash", "image": "--in-docker"}
        given = [flag for name, flag in names.items() if options[name]]
        if given:
            raise click.UsageError(f"{', '.join(given)}: only for runtime tensorrt_llm, this spec has runtime torch")
    return BuildSettings(**options)


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM and SIGHUP end the block as Ctrl-C does: what runs is ended and cleaned up first.

    One that is ignored stays so: nohup means that the build outlives its terminal.
    """

    def stop(_number: int, _frame: types.FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) != signal.SIG_IGN]
    previous = [signal.signal(number, stop) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, previous, strict=True):
            signal.signal(number, handler)


def _build(sink: Sink, spec_file: SpecFile, roles: Sequence[Role], settings: BuildSettings) -> list[BuiltEngine]:
    from trtspec.building import build_engines
    from trtspec.building.engines import planned_steps
    from trtspec.rules import require_pair

    if spec_file.spec.runtime == "torch" and not all(
        step["cached"] for step in planned_steps(spec_file, roles, force=settings.force, reporter=sink)
    ):
        require_pair(spec_file)
    return build_engines(spec_file, roles, settings=settings, reporter=sink)


def _show(sink: Sink, spec_file: SpecFile, engines: Sequence[BuiltEngine]) -> None:
    def human(console: Console) -> None:
        table = Table("role", "key", "size", "time", "", box=None, header_style="bold")
        for engine in engines:
            state = "[dim]cached[/]" if engine.cached else "[green]built[/]"
            table.add_row(engine.role, engine.key, bytes_text(engine.size_bytes), duration_text(engine.seconds), state)
        console.print(table)
        console.print(f"[dim]{spec_file.engines(engines[0].role).parent}[/]")
        if len(engines) == len(spec_file.spec.roles):
            console.print(f"[dim]next: {escape(command_line('repo', spec_file.path))}[/]")

    result = {"schema": 1, "engines": [_data(engine) for engine in engines]}
    sink.result(result, human, "\n".join(str(engine.path) for engine in engines))


def _data(engine: BuiltEngine) -> dict[str, object]:
    return {
        "role": engine.role,
        "path": str(engine.path),
        "key": engine.key,
        "cached": engine.cached,
        "seconds": round(engine.seconds, 3),
        "size_bytes": engine.size_bytes,
    }
