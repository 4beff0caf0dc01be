"""`trtspec distill`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trtspec.cli.command import command as make_command
from trtspec.cli.command import command_line, examples, spec_argument
from trtspec.cli.distill_options import distill_options
from trtspec.cli.failures import exit_code
from trtspec.cli.findings import print_findings
from trtspec.cli.output import Sink
from trtspec.errors import EnvironmentMissing, PairError, UsageError
from trtspec.spec import SpecFile, load_spec
from trtspec.units import count_text, duration_text

if TYPE_CHECKING:
    from trtspec.loadtest.prompts import Prompt
    from trtspec.rules import CheckResult
    from trtspec.training.card import Measurement
    from trtspec.training.distil import Distillation, Distilled
    from trtspec.training.starts import Start
    from trtspec.training.train import TrainingSettings

__all__ = ["command"]

_SHAPE = ("layers", "hidden", "heads", "kv_heads", "intermediate")
_LARGEST_SEED = (1 << 63) - 1
# what says where things lie or how they are shown, not what is made
_ELSEWHERE = frozenset({"spec_path", "out", "work", "resume", "output", "debug", "threads"})


@make_command(
    epilog=examples(
        "trtspec distill",
        "trtspec distill --budget 30m",
        "trtspec distill --prompts mine.jsonl --repeat 4 --out drafts/support",
        "trtspec distill --prompts runs/my-pair/20260101-120000 --answers logged",
        "trtspec distill --layers 3 --hidden 256 --tokens 2000000 --epochs 6",
        "trtspec distill --from-target 4",
        "trtspec distill --from ./Llama-3.2-1B-Instruct --categories code,code_editing",
        "trtspec distill --try 2x192,3x256,4x320,target:3 --output json",
    )
)
@spec_argument
@distill_options
def command(sink: Sink, spec_path: Path, **options: Any) -> int | None:
    """Make a draft for the spec's target: prompts, the target's answers, training, export.

    The draft becomes a Hugging Face folder with a README of what was measured on prompts it was never trained on.
    Answers and training are kept in a work folder: the same command goes on where it was stopped, and without
    --budget ends with the same bytes as if it had not been. Needs PyTorch; CUDA is used when it is there.
    """
    spec_file = load_spec(spec_path)
    _require_torch()
    _set_threads(options["threads"])
    plan = _plan(spec_file, options)
    from trtspec.training.distil import distil

    try:
        done = distil(plan, sink)
    except KeyboardInterrupt:
        sink.note("what is finished is kept: the same command goes on from there")
        raise
    checked = _checked(spec_file, done.folder)
    verdict = {"ok": checked.ok, "verdict": checked.verdict}
    sink.result(
        done.to_json() | {"check": verdict}, lambda console: _show(console, done, checked, spec_file), str(done.folder)
    )
    return None if checked.ok else exit_code(PairError("the pair cannot be served"))


def _require_torch() -> None:
    from importlib import util

    if util.find_spec("torch") is None:
        raise EnvironmentMissing("distill needs PyTorch", fix="pip install 'trtspec[local]'")


def _set_threads(count: int | None) -> None:
    if count is not None:
        import torch

        torch.set_num_threads(count)


def _plan(spec_file: SpecFile, options: dict[str, Any]) -> Distillation:
    from trtspec.training.collect import BLOCK
    from trtspec.training.distil import Distillation
    from trtspec.training.generate import GenerationSettings
    from trtspec.training.sources import read_source

    spec, seed = spec_file.spec, options["seed"]
    if seed > _LARGEST_SEED:
        raise UsageError(f"--seed {seed} is more than 64 bits hold", fix="--seed 1")
    rows = min(options["rows"], BLOCK)  # no more prompts are asked at a time
    out = _folder(options["out"], spec_file.root / "drafts" / spec.name)
    prompts = _from_here(options["prompts"])
    logged = options["answers"] == "logged"
    _require_end(prompts, options["repeat"], logged=logged)
    return Distillation(
        target=spec_file.checkpoint("target"),
        out=out,
        work=_folder(options["work"], out.with_name(f"{out.name}.work")),
        source=read_source(prompts, root=spec_file.root, seed=seed, categories=options["categories"], logged=logged),
        starts=_starts(options),
        tokens=options["tokens"],
        seconds=options["budget"],
        repeats=options["repeat"],
        longest_prompt=options["longest_prompt"],
        generation=GenerationSettings(rows=rows, max_new_tokens=options["max_new_tokens"], seed=seed),
        training=_training(spec_file, options),
        rate=options["rate"],
        further=_further(prompts, options["measure"]),
        further_name=_further_name(options["measure"]),
        proposed=options["proposed"],
        device=options["device"],
        dtypes=(spec.target.dtype, spec.draft.dtype),
        trust_remote_code=spec.target.trust_remote_code,
        fresh=not options["resume"],
        command=_remake(spec_file.path),
    )


def _require_end(prompts: str, repeat: int, *, logged: bool) -> None:
    """UsageError for a repetition that could never come, or would say the same again."""
    if repeat > 1 and prompts == "builtin":
        raise UsageError("the built-in prompts do not end: none is asked again", fix="more of them: --tokens N")
    if repeat > 1 and logged:
        raise UsageError("a logged answer is the same every time", fix="without --repeat, or --answers generate")


def _folder(given: Path | None, usual: Path) -> Path:
    return usual if given is None else given.expanduser().absolute()


def _from_here(prompts: str) -> str:
    """A file named on the command line belongs to the current folder."""
    return prompts if prompts == "builtin" else str(Path(prompts).expanduser().absolute())


def _starts(options: dict[str, Any]) -> tuple[Start, ...]:
    """The start or starts that the shape options mean; UsageError when they contradict each other."""
    from trtspec.training.model import DraftShape
    from trtspec.training.starts import FromDraft, FromTarget, Scratch, parse_start

    shape = {name: options[name] for name in _SHAPE if options[name] is not None}
    given = {"--try": options["candidates"], "--from-target": options["from_target"], "--from": options["from_draft"]}
    ways = [name for name, value in given.items() if value is not None] + (["--layers, --hidden, …"] if shape else [])
    if len(ways) > 1:
        raise UsageError(f"{' and '.join(ways)} say different things about the draft's shape", fix="one of them")
    if options["candidates"] is not None:
        return tuple(parse_start(text) for text in options["candidates"])
    if options["from_target"] is not None:
        return (FromTarget(options["from_target"]),)
    if options["from_draft"] is not None:
        return (FromDraft(options["from_draft"].expanduser().absolute()),)
    if "hidden" in shape:
        shape = {"heads": max(1, shape["hidden"] // 64), "intermediate": -(-9 * shape["hidden"] // 128) * 32} | shape
    if "heads" in shape:
        shape.setdefault("kv_heads", shape["heads"])
    made = DraftShape(**shape)
    if problem := made.problem():
        raise UsageError(f"the draft's shape is impossible: {problem}", fix="--hidden 256 --heads 4")
    return (Scratch(made),)


def _training(spec_file: SpecFile, options: dict[str, Any]) -> TrainingSettings:
    from trtspec.training.train import TrainingSettings

    return TrainingSettings(
        epochs=options["epochs"],
        steps=options["steps"],
        draft_length=options["draft_length"] or spec_file.spec.speculation.draft_length,
        patience=options["patience"],
        seed=options["seed"],
        batch_tokens=options["batch_tokens"],
    )


def _further(prompts: str, measure: str | None) -> tuple[Prompt, ...]:
    """Prompts of the load test to measure with: its own beside the built-in ones, none beside somebody's own."""
    from trtspec.loadtest.prompts import BUILTIN_60, load_prompts

    chosen = measure or ("builtin" if prompts == "builtin" else "none")
    if chosen == "none":
        return ()
    name = BUILTIN_60 if chosen == "builtin" else _from_here(chosen)
    return tuple(prompt for prompt in load_prompts(name).prompts if not prompt.turn)


def _further_name(measure: str | None) -> str:
    return "load-test prompts" if measure in {None, "builtin", "none"} else f"prompts of {Path(str(measure)).name}"


def _remake(spec_path: Path) -> str:
    """The command as it was given, without what does not change the draft."""
    context = click.get_current_context()
    parts = []
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in _ELSEWHERE or context.get_parameter_source(name) != ParameterSource.COMMANDLINE:
            continue
        parts += [parameter.opts[0], shlex.quote(_written(context.params[name]))]
    return command_line("distill", Path(spec_path.name), *parts)


def _written(value: object) -> str:
    """An option's value as it is written on the command line, every digit of it."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _checked(spec_file: SpecFile, folder: Path) -> CheckResult:
    """What `trtspec check` says about the target with this draft."""
    from trtspec.rules import check_pair

    spec = spec_file.spec
    method = "model" if spec.draft.method == "ngram" else spec.draft.method  # else there is nothing to check
    draft = spec.draft.model_copy(update={"checkpoint": folder, "method": method})
    return check_pair(SpecFile(spec_file.path, spec.model_copy(update={"draft": draft})))


def _show(console: Console, done: Distilled, checked: CheckResult, spec_file: SpecFile) -> None:
    facts = done.facts
    console.print(f"[bold]{escape(facts.shape)}[/], {facts.parameters / 1e6:.1f} million parameters")
    spent = ", ".join(f"{name} {duration_text(taken)}" for name, taken in done.seconds.items())
    console.print(f"{count_text(facts.answers)} answers, {count_text(facts.tokens)} tokens; {spent}")
    console.print(f"stopped because {escape(done.chosen.outcome.reason)}")
    if done.candidates:
        console.print(_candidates(done))
    console.print(_acceptance(list(facts.measurements)))
    for one in facts.measurements:
        if one.draft_length == done.draft_length and len(one.categories) > 1:
            console.print(escape(_by_category(one)))
    print_findings(console, checked.findings)
    console.print(f"[{'bold green' if checked.ok else 'bold red'}]{escape(checked.verdict)}[/]")
    console.print(f"draft: {escape(str(done.folder))}")
    if spec_file.source("draft").checkpoint is None or spec_file.checkpoint("draft") != done.folder:
        console.print(f"[dim]next: draft: {{checkpoint: {escape(_shown(done.folder, spec_file.root))}}} in the spec[/]")
    steps = " && ".join(command_line(name, spec_file.path) for name in ("build", "repo", "loadtest"))
    console.print(f"[dim]next: {escape(steps)}[/]")
    if done.held_out_file is not None:
        options = ["--prompts", shlex.quote(_shown(done.held_out_file, Path.cwd()))]
        if spec_file.spec.loadtest.categories:  # the spec's own are of other prompts
            options += ["--categories", shlex.quote(",".join(_measured_categories(done)))]
        asked = command_line("loadtest", spec_file.path, *options)
        console.print(f"[dim]on its held-out prompts: {escape(asked)}[/]")


def _measured_categories(done: Distilled) -> list[str]:
    from trtspec.training.candidates import HELD_OUT

    return sorted({name for one in done.facts.measurements if one.prompts == HELD_OUT for name in one.categories})


def _shown(path: Path, root: Path) -> str:
    return f"./{path.relative_to(root)}" if path.is_relative_to(root) else str(path)


def _acceptance(measurements: list[Measurement]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for head in ("prompts", "draft length", "mean length", "accepted"):
        table.add_column(head, justify="left" if head == "prompts" else "right")
    for one in measurements:
        mean = one.total.mean_length
        length = "–" if mean is None else f"{mean:.2f}"
        table.add_row(escape(one.prompts), str(one.draft_length), length, _percent(one.total.rate))
    return table


def _by_category(measurement: Measurement) -> str:
    """Acceptance of each category, the best first."""
    rates = {name: counts.rate for name, counts in measurement.categories.items() if counts.rate is not None}
    ordered = sorted(rates, key=lambda name: -rates[name])
    listed = ", ".join(f"{name} {_percent(rates[name])}" for name in ordered)
    return f"{measurement.prompts}, draft length {measurement.draft_length}: {listed}"


def _percent(rate: float | None) -> str:
    return "–" if rate is None else f"{rate:.0%}"


def _candidates(done: Distilled) -> Table:
    table = Table(box=box.SIMPLE_HEAD, caption="chosen by predicted speed-up")
    for head in (
        "",
        "shape",
        "million parameters",
        "mean length",
        "at draft length",
        "draft step",
        "predicted speed-up",
    ):
        table.add_column(head, justify="left" if head in {"", "shape"} else "right")
    for one in done.candidates:
        mean = "–" if one.mean_length is None else f"{one.mean_length:.2f}"
        cells = [f"{one.parameters / 1e6:.1f} M", mean, str(one.draft_length), f"{one.draft_ms:.2f} ms"]
        table.add_row("▶" if one.chosen else "", escape(one.name), *cells, f"{one.speedup:.2f}")
    return table
