"""`trtspec build`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from trtspec.cli.command import command as make_command
from trtspec.cli.command import examples, spec_argument
from trtspec.cli.output import Sink
from trtspec.spec import ROLES, Role, SpecFile, load_spec
from trtspec.units import bytes_text, duration_text

__all__ = ["command"]


@make_command(
    epilog=examples(
        "trtspec build",
        "trtspec build pair.yaml --role draft --force",
        "trtspec build pair.yaml --dry-run --output json",
    )
)
@spec_argument
@click.option("--role", "roles", type=click.Choice(ROLES), multiple=True, help="Only this engine (repeatable).")
@click.option("--force", is_flag=True, help="Build again even when the engine is there.")
@click.option("--dry-run", is_flag=True, help="Show what would be built and build nothing.")
def command(sink: Sink, spec_path: Path, roles: tuple[Role, ...], force: bool, dry_run: bool) -> None:
    """Build the engines: baseline, target and draft.

    Reads Hugging Face folders (safetensors, sharded or not, or one GGUF file; never pickles) and writes
    engines/NAME/ROLE/KEY. The key is a hash of the checkpoint's content and the options, so an engine that
    is there already is not built again.
    """
    spec_file = load_spec(spec_path)
    chosen = [role for role in ROLES if role in roles] if roles else list(ROLES)
    if dry_run:
        _show_steps(sink, spec_file, chosen, force=force)
        return
    from trtspec.building import BuiltEngine, build_engines
    from trtspec.building.engines import planned_steps
    from trtspec.rules import require_pair

    if not all(step["cached"] for step in planned_steps(spec_file, chosen, force=force, reporter=sink)):
        require_pair(spec_file)
    engines = build_engines(spec_file, chosen, force=force, reporter=sink)

    def human(console: Console) -> None:
        table = Table("role", "key", "size", "time", "", box=None, header_style="bold")
        for engine in engines:
            state = "[dim]cached[/]" if engine.cached else "[green]built[/]"
            table.add_row(engine.role, engine.key, bytes_text(engine.size_bytes), duration_text(engine.seconds), state)
        console.print(table)
        console.print(f"[dim]{spec_file.engines(engines[0].role).parent}[/]")

    def data(engine: BuiltEngine) -> dict[str, object]:
        return {
            "role": engine.role,
            "path": str(engine.path),
            "key": engine.key,
            "cached": engine.cached,
            "seconds": round(engine.seconds, 3),
            "size_bytes": engine.size_bytes,
        }

    result = {"schema": 1, "engines": [data(engine) for engine in engines]}
    sink.result(result, human, "\n".join(str(engine.path) for engine in engines))


def _show_steps(sink: Sink, spec_file: SpecFile, roles: Sequence[Role], *, force: bool) -> None:
    from trtspec.building.engines import planned_steps

    steps = planned_steps(spec_file, roles, force=force, reporter=sink)

    def human(console: Console) -> None:
        for step in steps:
            state = "[dim]cached[/]" if step["cached"] else "would be built"
            console.print(f"{step['role']:9}{state}  {step['outputs'][0]}")

    sink.result({"schema": 1, "steps": steps}, human)
