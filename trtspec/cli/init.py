"""`trtspec init`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import get_args

import click
from rich.markup import escape

from trtspec.cli.command import command as make_command
from trtspec.cli.command import command_line, examples
from trtspec.cli.output import Sink
from trtspec.errors import UsageError
from trtspec.files import write_text
from trtspec.hardware.catalogue import find_gpu
from trtspec.spec import parse_spec
from trtspec.spec.names import DraftMethod, Runtime
from trtspec.spec.template import spec_name, spec_template

__all__ = ["command"]

FOLDER = click.Path(path_type=Path)
SPEC_FILE = "trtspec.yaml"


@make_command(
    epilog=examples(
        "trtspec init",
        "trtspec init --target ./Llama-3.1-70B-Instruct --draft ./Llama-3.2-1B-Instruct",
        "trtspec init --target ./Llama-3.1-8B-Instruct --draft-method ngram",
        "trtspec init --runtime tensorrt_llm --gpu H100 --count 4 --target ./big --draft ./small",
        "trtspec init specs/qwen.yaml --name qwen --force",
    )
)
@click.argument("path", metavar="[PATH]", type=click.Path(path_type=Path), default=Path(SPEC_FILE))
@click.option("--target", type=FOLDER, help="Checkpoint folder of the target.")
@click.option("--draft", type=FOLDER, help="Checkpoint folder of the draft.")
@click.option(
    "--draft-method", "method", type=click.Choice(get_args(DraftMethod)), default=None,
    help="Where drafts come from: a model (default), the text itself (ngram), or the text first (lookup).",
)  # fmt: skip
@click.option("--name", help="Name of the pair's folders; default: the target's name.")
@click.option("--runtime", type=click.Choice(get_args(Runtime)), help="What builds and runs the engines.")
@click.option("--gpu", metavar="NAME", help="GPU of the deployment, e.g. H100.")
@click.option("--count", type=click.IntRange(1, 1024), help="GPUs in the machine; with --gpu.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def command(
    sink: Sink,
    path: Path,
    *,
    target: Path | None,
    draft: Path | None,
    method: DraftMethod | None,
    name: str | None,
    force: bool,
    runtime: Runtime | None,
    gpu: str | None,
    count: int | None,
) -> None:
    """Write a commented trtspec.yaml: every field, defaults as comments.

    PATH is a file or a folder (default: trtspec.yaml here). Nothing is replaced without --force.
    """
    file = path / SPEC_FILE if path.is_dir() else path
    if file.exists() and not force:
        raise UsageError("is there already", where=str(file), fix=f"trtspec init {file} --force replaces it")
    text = spec_template(
        {
            "version": 1,
            "name": name if name is not None else spec_name(target.absolute().name if target else ""),
            "target.checkpoint": _seen_from(file, target) if target else "./target",
            **_draft(file, draft, method),
            **({"runtime": runtime} if runtime else {}),
            **_hardware(gpu, count),
        }
    )
    parse_spec(text, str(file))
    _write(file, text)
    steps = command_line("check", file)
    sink.result(
        {"schema": 1, "path": str(file), "next": steps}, lambda out: out.print(f"wrote {escape(str(file))}"), str(file)
    )
    folders = "checkpoint folder" if method == "ngram" else "two checkpoint folders"
    edit = "" if target and (draft or method == "ngram") else f"put your {folders} into {file}, then "
    sink.note(f"next: {escape(edit + steps)}")


def _draft(file: Path, folder: Path | None, method: DraftMethod | None) -> dict[str, str]:
    """The values of the section draft."""
    given: dict[str, str] = {} if method is None else {"draft.method": method}
    if method == "ngram":
        if folder is not None:
            raise UsageError("--draft-method ngram has no second model", fix="leave out --draft, or write lookup")
        return given
    return {"draft.checkpoint": _seen_from(file, folder) if folder else "./draft", **given}


def _hardware(gpu: str | None, count: int | None) -> dict[str, str | int]:
    """The section's values, the GPU by its full name."""
    if gpu is None:
        if count is not None:
            raise UsageError("--count says how many of which GPU", fix="add --gpu NAME")
        return {}
    return {"hardware.gpu": find_gpu(gpu).name, "hardware.count": count or 1}


def _seen_from(file: Path, folder: Path) -> str:
    """`folder`, typed in the current folder, as the spec file has to name it."""
    if folder.is_absolute():
        return str(folder)
    relative = os.path.relpath(folder, file.parent)
    return relative if relative.startswith("..") else f"./{relative}"


def _write(file: Path, text: str) -> None:
    try:
        write_text(file, text)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=str(file), fix="choose another path") from None
