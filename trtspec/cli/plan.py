"""`trtspec plan`."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape

from trtspec.cli.command import command as make_command
from trtspec.cli.command import command_line, examples, spec_argument
from trtspec.cli.failures import exit_code
from trtspec.cli.output import Sink
from trtspec.errors import PairError
from trtspec.spec import load_spec

if TYPE_CHECKING:
    from trtspec.planning.measured import MeasuredRun
    from trtspec.planning.plan import Plan

__all__ = ["command"]

_MOST_VALUES = 64


def _numbers(low: int, high: int, example: str) -> Any:
    """A click callback for numbers from `low` to `high`, separated by commas."""

    def parse(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
        if value is None:
            return None
        parts = value.replace(" ", "").split(",")
        if not all(re.fullmatch(r"[0-9]{1,9}", part) and low <= int(part) <= high for part in parts):
            raise click.BadParameter(f"numbers from {low} to {high} separated by commas, e.g. {example}")
        if len(parts) > _MOST_VALUES:
            raise click.BadParameter(f"at most {_MOST_VALUES} numbers")
        return tuple(sorted({int(part) for part in parts}))

    return parse


def _finite(_ctx: click.Context, _param: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number")
    return value


def _assumptions(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    found = {}
    for text in values:
        name, mark, number = text.partition("=")
        try:
            found[name.strip()] = float(number)
        except ValueError:
            raise click.BadParameter(f"{text!r} is not NAME=NUMBER, e.g. bandwidth_efficiency=0.75") from None
        if not mark or math.isnan(found[name.strip()]):
            raise click.BadParameter(f"{text!r} is not NAME=NUMBER, e.g. bandwidth_efficiency=0.75")
    return found


@make_command(
    epilog=examples(
        "trtspec plan",
        "trtspec plan trtspec.yaml --gpu H100-80GB-SXM --count 4 --acceptance-rate 0.6",
        "trtspec plan --measured runs/demo/20260101-120000-1a2b",
        "trtspec plan --price 2.5 --concurrency 1,8,32 --html plan.html",
        "trtspec plan --output json | jq .verdict",
    )
)
@spec_argument
@click.option(
    "--acceptance-rate", type=click.FloatRange(0, 1), metavar="SHARE", callback=_finite,
    help="Accepted over drafted tokens at the spec's draft length. Default: the spec's; it is never assumed.",
)  # fmt: skip
@click.option(
    "--measured", type=click.Path(path_type=Path), metavar="RUN",
    help="A load test's run: takes its acceptance, and shows how far the plan was off.",
)  # fmt: skip
@click.option("--gpu", metavar="NAME", help="GPU to plan for instead of the spec's, e.g. H100.")
@click.option("--count", type=click.IntRange(1, 1024), help="GPUs in the machine instead of the spec's.")
@click.option(
    "--price", type=click.FloatRange(0, 1e12), callback=_finite, help="Price of one GPU for one hour, any currency."
)
@click.option("--concurrency", "concurrencies", metavar="N,…", callback=_numbers(1, 4096, "1,8,32"),
              help="Requests in flight to show. Default: powers of two up to build.max_batch_size.")  # fmt: skip
@click.option("--draft-length", "draft_lengths", metavar="N,…", callback=_numbers(0, 64, "0,4,8"),
              help="Draft lengths to show. Default: usual ones up to what the engine has room for.")  # fmt: skip
@click.option("--assume", "assumptions", multiple=True, metavar="NAME=VALUE", callback=_assumptions,
              help="Change an assumption of the speed model; --detail lists them.")  # fmt: skip
@click.option("--detail", is_flag=True, help="Show every term with its formula and where each value comes from.")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Write the plan as one HTML page.")
@click.option("--gpus", "list_gpus", is_flag=True, help="List the GPUs that are known, and nothing else.")
def command(
    sink: Sink,
    spec_path: Path,
    *,
    detail: bool,
    html: Path | None,
    list_gpus: bool,
    measured: Path | None,
    **options: Any,
) -> int | None:
    """Tell whether the pair fits and pays, before anything is built.

    From metadata alone: memory of every GPU, how many sequences fit, the expected speed-up over draft length and
    concurrency with its break-even points, and what tokens cost. Exits with 3 when the pair cannot be served or does
    not fit.
    """
    if list_gpus:
        from trtspec.cli.gpu_list import show_gpus

        show_gpus(sink)
        return None
    from trtspec.planning.plan import PlanOptions, make_plan

    run = None if measured is None else _read_run(measured)
    plan = make_plan(load_spec(spec_path), PlanOptions(measured=run, **options))
    if html is not None:
        _write_html(plan, html)
    # `build` plans for the spec's GPU: after a plan for another one it would not be the next thing to do
    dry = ("--dry-run",) if plan.spec_file.spec.runtime == "tensorrt_llm" else ()
    following = command_line("build", spec_path, *dry) if plan.ok and options["gpu"] is None else None
    sink.result(plan.to_json(), lambda console: _print(console, plan, following, detail=detail), plan.verdict)
    if html is not None:
        sink.note(f"plan: {escape(str(html))}")
    return None if plan.ok else exit_code(PairError("the plan does not work"))


def _print(console: Console, plan: Plan, following: str | None, *, detail: bool) -> None:
    from trtspec.cli.findings import print_findings
    from trtspec.reports.plan_console import print_plan
    from trtspec.reports.plan_detail import print_detail

    print_plan(console, plan)
    notes = [finding for finding in plan.findings if finding.level == "note"]
    print_findings(console, [finding for finding in plan.findings if detail or finding not in notes])
    if detail:
        print_detail(console, plan)
    else:
        more = f"{len(notes)} note{'' if len(notes) == 1 else 's'}, " if notes else ""
        console.print(f"\n[dim]{more}every term, and where each value comes from: --detail[/]")
    if following:
        console.print(f"[dim]next: {escape(following)}[/]")


def _read_run(path: Path) -> MeasuredRun:
    # brings the load test with it, which a plan from metadata does without
    from trtspec.reports.measured import read_measured

    return read_measured(path)


def _write_html(plan: Plan, path: Path) -> None:
    from trtspec.reports.plan_html import write_plan_html

    write_plan_html(plan, path)
