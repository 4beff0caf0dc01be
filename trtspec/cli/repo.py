"""`trtspec repo`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape

from trtspec.cli.command import command as make_command
from trtspec.cli.command import command_line, examples, spec_argument
from trtspec.cli.findings import print_findings
from trtspec.cli.output import Sink
from trtspec.cli.repo_diff import show_diff
from trtspec.cli.repo_history import roll_back, show_history
from trtspec.cli.repo_lint import lint, lint_arms, lint_folder
from trtspec.repository import GeneratedRepository, VersionChoice, generate, preview
from trtspec.spec import ARMS, Arm, SpecFile, load_spec

__all__ = ["command"]

_FEW = 12


def _versions(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[int, ...] | None:
    """`latest` as (), numbers as they are; None when not given."""
    if not values:
        return None
    if values == ("latest",):
        return ()
    if not all(value.isascii() and value.isdecimal() and int(value) for value in values):
        raise click.BadParameter("give version numbers, or latest alone", ctx, param)
    return tuple(sorted({int(value) for value in values}))


@make_command(
    epilog=examples(
        "trtspec repo",
        "trtspec repo my-pair.yaml --arm baseline",
        "trtspec repo --diff",
        "trtspec repo --lint",
        "trtspec repo --lint --path /srv/model_repo --root-map /data/engines=/engines --image 26.04",
        "trtspec repo --lint --path /srv/model_repo --launch start.sh",
        "trtspec repo --new-version",
        "trtspec repo --serve-version 1",
        "trtspec repo --rollback",
        "trtspec repo --output json",
    )
)
@spec_argument
@click.option("--arm", type=click.Choice(ARMS), default=None, help="Only this arm (default: both).")
@click.option("--diff", is_flag=True, help="Show what would change, by model and as text; write nothing.")
@click.option("--lint", is_flag=True, help="Check the repositories instead of writing them; exit code 3 on errors.")
@click.option("--path", type=click.Path(path_type=Path), help="With --lint: any repository, with no spec.")
@click.option(
    "--root-map", metavar="HOST=CONTAINER", multiple=True, help="With --lint: where paths of the container lie here."
)
@click.option("--image", metavar="IMAGE", help="With --lint: the image that will serve it (default: the spec's).")
@click.option(
    "--launch",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="With --path: what starts its server (script, compose file, manifest); its ports are checked too.",
)
@click.option("--new-version", is_flag=True, help="Write the models' code as the next version folder, keep the others.")
@click.option(
    "--serve-version",
    metavar="N|latest",
    multiple=True,
    callback=_versions,
    help="Versions that Triton serves (default: the newest).",
)
@click.option("--history", is_flag=True, help="List the generations that are kept.")
@click.option("--rollback", is_flag=True, help="Go back to the previous generation.")
@click.option("--generation", type=click.IntRange(min=1), help="With --rollback: to this one.")
def command(sink: Sink, spec_path: Path, arm: str | None, **options: Any) -> int | None:
    """Generate the Triton model repository of both arms from the built engines.

    Writes model_repo/<name>/<arm>/ beside the spec. Unchanged files are not touched, files that no longer belong
    there are removed, files that you added are left alone. The last 10 generations are kept (--history, --rollback).

    With --lint nothing is written: every config.pbtxt is parsed, and parameters, tensors, engines, GPUs and versions
    are held against each other, in these repositories or in any other (--path), and the ports of both arms' servers.
    """
    _refuse(options)
    if options["generation"] and arm is None:
        raise click.UsageError("--generation goes with --arm: every arm has numbers of its own")
    arms = [known for known in ARMS if arm in (None, known)]
    if options["lint"]:
        return _lint(sink, spec_path, arms, options)
    spec_file = load_spec(spec_path)
    if options["history"]:
        show_history(sink, spec_file, arms)
    elif options["rollback"]:
        roll_back(sink, spec_file, arms, options["generation"])
    else:
        _write(sink, spec_file, arms, options)
    return None


_MODES = ("diff", "lint", "history", "rollback")
# option → the mode that it needs; options of writing are for writing and --diff alone
_NEEDS = {"path": "lint", "root_map": "lint", "image": "lint", "launch": "path", "generation": "rollback"}


def _refuse(options: dict[str, Any]) -> None:
    modes = [mode for mode in _MODES if options[mode]]
    if len(modes) > 1:
        raise click.UsageError(f"--{modes[0]} and --{modes[1]} do not go together")
    for name, mode in _NEEDS.items():
        if options[name] and not options[mode]:
            raise click.UsageError(f"--{name.replace('_', '-')} goes with --{mode}")
    versions = (
        "new-version" if options["new_version"] else "serve-version" if options["serve_version"] is not None else None
    )
    if versions and modes and modes != ["diff"]:
        raise click.UsageError(f"--{versions} and --{modes[0]} do not go together")


def _lint(sink: Sink, spec_path: Path, arms: list[Arm], options: dict[str, Any]) -> int | None:
    given = (options["root_map"], options["image"])
    if options["path"] is not None:
        return lint(sink, lint_folder(options["path"], *given, options["launch"]))
    return lint(sink, lint_arms(load_spec(spec_path), arms, *given))


def _write(sink: Sink, spec_file: SpecFile, arms: list[Arm], options: dict[str, Any]) -> None:
    diff = options["diff"]
    versions = VersionChoice(new=options["new_version"], serve=options["serve_version"])
    made = preview(spec_file, arms, versions) if diff else generate(spec_file, arms, versions)
    for name in made.foreign:
        sink.note(f"[yellow]left alone:[/] {escape(name)} was not made by trtspec")
    for text in made.notes:
        sink.note(f"[yellow]note:[/] {escape(text)}")
    data = {
        "schema": 1,
        "arms": {name: str(path) for name, path in made.arms.items()},
        "changed": made.changed,
        "unchanged": made.unchanged,
        "removed": made.removed,
        "foreign": made.foreign,
        "dry_run": diff,
        "derived": {name: dict(values) for name, values in made.derived.items()},
        "findings": [finding.to_json() for finding in made.findings],
        "notes": list(made.notes),
        "models": {name: [change.to_json() for change in changes] for name, changes in made.models.items()},
        **({"diff": made.diff} if diff else {}),
    }

    def human(out: Console) -> None:
        _show(out, made, diff=diff)
        if not diff:
            question = '"Why is the sky blue?"'
            out.print(f"[dim]next: {escape(command_line('ask', spec_file.path, question))}[/]")

    sink.result(data, human, "\n".join(str(path) for path in made.arms.values()))


def _show(out: Console, made: GeneratedRepository, *, diff: bool) -> None:
    if diff:
        show_diff(out, made)
    tense = "would be " if diff else ""
    for name in _shortened(made.changed):
        out.print(f"  [green]{tense}written[/]  {escape(name)}")
    for name in made.removed:
        out.print(f"  [red]{tense}removed[/]  {escape(name)}")
    out.print(f"{len(made.changed)} {tense}written, {len(made.removed)} {tense}removed, {made.unchanged} unchanged")
    for arm, path in made.arms.items():
        out.print(f"  {arm:<12} {escape(str(path))}")
        _show_derived(out, made.derived.get(arm, {}))
    print_findings(out, made.findings)


def _show_derived(out: Console, derived: Mapping[str, Any]) -> None:
    """What engines and GPUs decided; nothing for the torch runtime."""
    for model, values in derived.get("models", {}).items():
        cache = f"{values['max_tokens_in_paged_kv_cache']} tokens of KV cache"
        share = f"fraction {values['kv_cache_free_gpu_mem_fraction']:g}"
        ranks = f", MPI ranks {values['participant_ids']}" if values["participant_ids"] else ""
        out.print(
            f"    {model:<20} GPU {values['gpu_device_ids']}{ranks}, batch {values['max_batch_size']}, {cache}, {share}"
        )
        out.print(f"    {'':<20} [dim]{escape(values['why'])}[/]")
    if derived:
        started = f"{derived['launch_mode']}, MPI world size {derived['world_size']}"
        out.print(
            f"    [dim]TensorRT-LLM {derived['tensorrt_llm']} on {derived['gpu'] or 'unknown GPUs'}; {started}[/]"
        )


def _shortened(names: list[str]) -> list[str]:
    """The files themselves when they are few, else each model with its number of files."""
    if len(names) <= _FEW:
        return names
    models = Counter("/".join(name.split("/")[:2]) for name in names)
    return [f"{model} ({count} {'file' if count == 1 else 'files'})" for model, count in models.items()]
