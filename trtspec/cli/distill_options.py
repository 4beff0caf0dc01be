"""The options of `trtspec distill`, in the groups in which its help shows them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from trtspec.cli.load_options import read_seconds

__all__ = ["distill_options"]

Function = TypeVar("Function", bound=Callable[..., Any])
_PATH = click.Path(path_type=Path)
_COUNT = click.IntRange(min=1)


def distill_options(function: Function) -> Function:
    """Give a command all options of a distillation."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def _list(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Words separated by commas; None where the option is absent."""
    if value is None:
        return None
    words = tuple(word.strip() for word in value.split(",") if word.strip())
    if not words or len(set(words)) < len(words):
        raise click.BadParameter(f"{value!r} is not a list of different words separated by commas")
    return words


def _some(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    return _list(ctx, param, value) or ()


_DATA = (
    click.option(
        "--prompts", metavar="FILE", default="builtin", show_default=True,
        help="builtin, a file of prompts as the load test reads, or a run's folder or requests.jsonl.",
    ),
    click.option(
        "--answers", type=click.Choice(["generate", "logged"]), default="generate", show_default=True,
        help="logged: train on the answers that stand in the requests.jsonl.",
    ),
    click.option("--categories", metavar="NAME,…", callback=_some, help="Only prompts of these. Default: all."),
    click.option("--repeat", type=_COUNT, default=1, show_default=True, help="Answers a prompt; later ones sampled."),
    click.option("--tokens", type=_COUNT, default=600_000, show_default=True, help="Tokens of answers wanted."),
    click.option("--max-new-tokens", type=_COUNT, default=144, show_default=True, help="Longest answer."),
    click.option("--longest-prompt", type=_COUNT, default=512, show_default=True, help="Longer are left out."),
    click.option("--rows", type=_COUNT, default=64, show_default=True, help="Answers written at once."),
)  # fmt: skip

_SHAPE = (
    click.option("--layers", type=_COUNT, help="New layers of a small Llama. Default: 3."),
    click.option("--hidden", type=_COUNT, help="Its width. Default: 256."),
    click.option("--heads", type=_COUNT, help="Default: one for every 64 values of the width."),
    click.option("--kv-heads", type=_COUNT, help="Key/value heads. Default: as many as heads."),
    click.option("--intermediate", type=_COUNT, help="Width within the MLP. Default: 2.25 times the width."),
    click.option("--from-target", type=_COUNT, metavar="LAYERS", help="So many of the target's layers instead."),
    click.option("--from", "from_draft", type=_PATH, metavar="DRAFT", help="Tune this model instead."),
    click.option(
        "--try", "candidates", metavar="SHAPE,…", callback=_list,
        help="Several in turn, e.g. 2x192,3x256/576/4,target:3; the fastest pair is kept.",
    ),
)  # fmt: skip

_TRAINING = (
    click.option("--epochs", type=_COUNT, default=8, show_default=True, help="Passes over the answers, at most."),
    click.option("--steps", type=_COUNT, help="Steps of training instead of passes."),
    click.option("--budget", metavar="TIME", callback=read_seconds, help="Time for everything, e.g. 30m or 8h."),
    click.option("--patience", type=_COUNT, default=3, show_default=True, help="Measurements without a gain."),
    click.option(
        "--rate", type=click.FloatRange(min=0, min_open=True),
        help="Peak learning rate. Default: 0.002 for new layers, 0.0003 otherwise.",
    ),
    click.option("--batch-tokens", type=_COUNT, default=1024, show_default=True, help="Positions in a step."),
    click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Prompts, samples, order."),
)  # fmt: skip

_RESULT = (
    click.option("--draft-length", type=click.IntRange(1, 64), help="To measure with. Default: the spec's."),
    click.option(
        "--measure", metavar="FILE",
        help="More prompts to measure with: builtin (the load test's builtin-60), none, or a file. Default: builtin "
        "with --prompts builtin, else none.",
    ),
    click.option(
        "--proposed", type=click.IntRange(min=0), default=8192, show_default=True,
        help="Tokens that the torch runtime may propose; 0: all.",
    ),
    click.option("--out", type=_PATH, help="Folder of the draft. Default: drafts/<name> beside the spec."),
    click.option("--work", type=_PATH, help="Folder of answers and states. Default: <out>.work."),
    click.option("--resume/--fresh", "resume", default=True, help="Go on (default), or train anew."),
    click.option("--device", metavar="NAME", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N."),
    click.option("--threads", type=_COUNT, help="Threads on a CPU. Default: all cores."),
)  # fmt: skip

_OPTIONS = (*_DATA, *_SHAPE, *_TRAINING, *_RESULT)
