"""`trtspec engines list`, `show` and `prune`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape

from trtspec.cli.command import command as make_command
from trtspec.cli.command import examples
from trtspec.cli.engine_tables import describe, entry_json, print_engines, print_plan
from trtspec.cli.engine_view import show_engine
from trtspec.cli.output import Sink
from trtspec.errors import UsageError
from trtspec.spec.names import ROLES, Role
from trtspec.units import bytes_text

if TYPE_CHECKING:
    from trtspec.building.inventory import Entry
    from trtspec.building.pruning import Kept, PrunePlan, Removal
    from trtspec.building.usage import SpecsHere, Usage

__all__ = ["command"]

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_Path = click.Path(path_type=Path)


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "trtspec engines list",
        "trtspec engines show 3f9c2a71",
        "trtspec engines show /models/llama-70b-engine --role target",
        "trtspec engines prune --dry-run",
        "trtspec engines prune --older-than 7d --checkpoints --yes",
    ),
)
def command() -> None:
    """List, inspect and remove built engines and converted checkpoints."""


def _age(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """`90m`, `36h`, `7d` as seconds."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)([smhdw])", value.strip().lower())
    if found is None:
        message = f"{value!r} is not an age; write a number and s, m, h, d or w, e.g. 7d"
        raise click.BadParameter(message, ctx, param)
    return float(found[1]) * _UNITS[found[2]]


def _root(specs: Sequence[Path], given: Path | None) -> Path:
    """The folder whose engines/ is meant: --root, else that of the first spec, else this one."""
    root = given if given is not None else specs[0].parent if specs else Path()
    if not root.is_dir():
        raise UsageError("there is no such folder", where=str(root))
    if any(spec.resolve().parent != root.resolve() for spec in specs):
        raise UsageError("all specs must lie in one folder: engines/ is beside them", where=str(root))
    return root.resolve()


def _survey(root: Path, specs: Sequence[Path]) -> tuple[tuple[Entry, ...], SpecsHere, Usage]:
    from trtspec.building.inventory import take_inventory
    from trtspec.building.usage import find_specs, used_entries

    entries, found = take_inventory(root), find_specs(root, specs)
    return entries, found, used_entries(root, entries, found)


@make_command(epilog=examples("trtspec engines list", "trtspec engines list --root /data/llm --output json"))
@click.argument("specs", metavar="[SPEC]...", nargs=-1, type=_Path)
@click.option("--root", type=_Path, default=None, help="Folder that holds engines/; default: that of SPEC, else here.")
def list_command(sink: Sink, specs: tuple[Path, ...], root: Path | None) -> None:
    """Show what is built, how large it is, and which spec uses it.

    Engines and converted checkpoints of both runtimes, and what killed or failed builds left behind. Looks at the
    spec files in the folder, and at those given to be sure that they are read.
    """
    from trtspec.building.inventory import disk_bytes

    folder = _root(specs, root)
    entries, found, usage = _survey(folder, specs)
    total = disk_bytes(entries)
    data = {
        "schema": 1,
        "root": str(folder),
        "specs": [str(spec.path) for spec in found.specs],
        "unreadable_specs": list(found.unreadable),
        "entries": [entry_json(entry, usage) for entry in entries],
        "total_bytes": total,
    }

    def human(console: Console) -> None:
        if not entries:
            console.print(f"no engines under {escape(str(folder / 'engines'))}; trtspec build makes them")
            return
        print_engines(console, entries, usage)
        console.print(f"[dim]{bytes_text(total)} in {escape(str(folder / 'engines'))} (linked weights count once)[/]")
        for doubt in usage.unknown.values():
            console.print(f"[yellow]use unknown:[/] {escape(doubt)}")

    sink.result(data, human, "\n".join(str(entry.path) for entry in entries))


@make_command(
    epilog=examples(
        "trtspec engines show 3f9c2a71",
        "trtspec engines show engines/demo/target/3f9c2a71d0b8e6aa",
        "trtspec engines show /models/llama-70b-engine --role target --output json",
    )
)
@click.argument("engine", metavar="KEY|FOLDER")
@click.option("--root", type=_Path, default=None, help="Folder that holds engines/; default: here.")
@click.option(
    "--role", type=click.Choice(ROLES), default=None, help="What the engine is for; default: as it was built."
)
def show_command(sink: Sink, engine: str, root: Path | None, role: Role | None) -> int | None:
    """Show one engine and what is wrong with it.

    Its sizes, precision, ranks and speculative mode, what made it, and the findings of its inspection. Takes the
    beginning of a key of this folder's engines, or any engine folder. Exits with 4 when the inspection finds an error.
    """
    folder = Path(engine).expanduser()
    if not folder.is_dir():
        from trtspec.building.inventory import find_entry, take_inventory

        folder = find_entry(take_inventory(_root((), root)), engine).path
    return show_engine(sink, folder, role)


@make_command(
    epilog=examples(
        "trtspec engines prune --dry-run",
        "trtspec engines prune trtspec.yaml --older-than 7d",
        "trtspec engines prune --checkpoints --yes --output json",
    )
)
@click.argument("specs", metavar="[SPEC]...", nargs=-1, type=_Path)
@click.option("--root", type=_Path, default=None, help="Folder that holds engines/; default: that of SPEC, else here.")
@click.option(
    "--older-than", metavar="AGE", callback=_age, help="Only what has not changed for so long, e.g. 12h or 7d."
)
@click.option("--checkpoints", is_flag=True, help="Also converted checkpoints whose engines are finished.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed and remove nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def prune_command(
    sink: Sink,
    specs: tuple[Path, ...],
    root: Path | None,
    older_than: float | None,
    checkpoints: bool,
    dry_run: bool,
    yes: bool,
) -> int | None:
    """Remove what no spec here uses; asks before it does.

    Engines, converted checkpoints, what killed builds left, and old logs of failed builds. With SPECs given, only
    what belongs to their names. Never removes what a running build holds, what a generated repository or a generation
    of one (`trtspec repo --history`) serves, or engines of a spec that cannot be read. Logs of failed builds stay for
    a day.
    """
    from trtspec.building.pruning import PruneRules, prune, prune_plan

    folder = _root(specs, root)
    entries, found, usage = _survey(folder, specs)
    paths = {path.resolve() for path in specs}
    names = frozenset(spec.spec.name for spec in found.specs if spec.path.resolve() in paths)
    plan = prune_plan(entries, usage, PruneRules(older_than, checkpoints, names if specs else None))
    if sink.mode == "human":
        print_plan(sink.out, plan)
    if not dry_run and plan.removals and not yes and not _confirmed(sink, plan):
        sink.note("nothing was removed")
        return 1
    gone: list[Removal] = []
    kept = plan.kept if dry_run else (*plan.kept, *prune(plan, gone.append))
    _report(sink, folder, plan, gone, kept, dry_run=dry_run)
    return None


def _confirmed(sink: Sink, plan: PrunePlan) -> bool:
    if sink.mode != "human" or not _is_terminal():
        raise UsageError("removing engines has to be confirmed", fix="add --yes, or --dry-run to look first")
    return click.confirm(f"remove these {len(plan.removals)} and free {bytes_text(plan.freed)}?", err=True)


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _report(
    sink: Sink, root: Path, plan: PrunePlan, gone: Sequence[Removal], kept: Sequence[Kept], *, dry_run: bool
) -> None:
    from trtspec.building.inventory import freed_bytes

    listed = plan.removals if dry_run else gone
    freed = freed_bytes(removal.entry for removal in listed)
    data = {
        "schema": 1,
        "root": str(root),
        "dry_run": dry_run,
        "removed": [
            {
                "path": str(item.entry.path),
                "kind": item.entry.kind,
                "size_bytes": item.entry.size,
                "reason": item.reason,
            }
            for item in listed
        ],
        "kept": [{"path": str(item.entry.path), "reason": item.reason} for item in kept],
        "freed_bytes": freed,
    }

    def human(console: Console) -> None:
        for late in kept[len(plan.kept) :]:
            console.print(f"[yellow]kept:[/] {describe(late.entry)} {late.entry.key}: {escape(late.reason)}")
        if listed:
            console.print(f"{len(listed)} {'would be removed' if dry_run else 'removed'}, {bytes_text(freed)}")

    sink.result(data, human, "\n".join(str(item.entry.path) for item in listed))


command.add_command(list_command, "list")
command.add_command(show_command, "show")
command.add_command(prune_command, "prune")
