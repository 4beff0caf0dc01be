"""`trtspec loadtest`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from rich.console import Console
from rich.markup import escape

from trtspec.cli.command import command as make_command
from trtspec.cli.command import command_line, examples, spec_argument
from trtspec.cli.failures import INTERRUPTED, exit_code, show_error
from trtspec.cli.load_options import load_options
from trtspec.cli.output import Sink
from trtspec.errors import ThresholdFailed, TrtspecError, UsageError
from trtspec.spec import SpecFile, load_spec

if TYPE_CHECKING:
    from trtspec.loadtest import RunResult

__all__ = ["command"]


@make_command(
    epilog=examples(
        "trtspec loadtest",
        "trtspec loadtest trtspec.yaml --concurrency 1,4,16 --requests 200",
        "trtspec loadtest --rate 0.5,2,8 --slo ttft=500ms,tpot=50ms",
        "trtspec loadtest --profile 2:60,2..10:120 --arrivals gamma --burstiness 0.5",
        "trtspec loadtest --trace conversation_trace.jsonl --trace-speed 2",
        "trtspec loadtest --until 5% --concurrency 1",
        "trtspec loadtest --aa",
        "trtspec loadtest --prompts mine.jsonl --draft-length 6 --out runs/six",
        "trtspec loadtest --arm-url speculative=http://gpu1:8000 --arm-url baseline=http://gpu2:8000",
        "trtspec loadtest --a http://gpu1:8000/v1 --b http://gpu2:8000/v1 --tokenizer ./Llama-3.1-8B-Instruct",
        "trtspec loadtest --fail-if 'speedup.output_tokens_per_second.low < 1.0'",
        "trtspec loadtest --output json --progress json | jq .comparison.verdict",
    )
)
@spec_argument
@load_options
def command(sink: Sink, spec_path: Path, **options: Any) -> int | None:
    """Measure speculation against the baseline: the same prompts in both arms, paired and interleaved.

    Options left out come from the spec's loadtest section. With --a and --b any two servers are compared, without a
    spec. Every request is written to the run's requests.jsonl as it ends, so a run that is interrupted keeps what it
    measured (--resume goes on with it).
    """
    from trtspec.cli.load_view import LoadView
    from trtspec.loadtest import resume, run, run_options
    from trtspec.reports.gates import parse_gates

    gates, resumed = parse_gates(options.pop("gates")), options.pop("resumed")
    report, progress = options.pop("report"), options.pop("progress")
    spec_file = _spec(spec_path, options, resumed)
    with LoadView(sink, progress) as view:
        if resumed is not None:
            result = resume(spec_file, resumed, sink, view.show)
        else:
            result = run(spec_file, run_options(spec_file, **_overrides(options)), sink, view.show)
    _show(sink, result, report=report)
    if result.interrupted:
        sink.err.print("[bold]interrupted:[/] this is what had been measured")
        again = command_line("loadtest", spec_path, "--resume", shlex.quote(str(result.path)))
        sink.err.print(f"[bold]next:[/] {escape(again)}")
        return INTERRUPTED
    failure = result.failure or _gate_failure(result, gates)
    if failure is not None:
        # the result is on stdout already; only the message belongs beside it
        show_error(failure, replace(sink, mode="human"))
        return exit_code(failure)
    return None


def _spec(path: Path, options: dict[str, Any], resumed: Path | None) -> SpecFile | None:
    """The spec; None where two addresses are compared and none was named."""
    source = click.get_current_context().get_parameter_source("spec_path")
    named = source is not ParameterSource.DEFAULT
    if resumed is not None and not named:
        from trtspec.loadtest.resume import made_from_spec

        return load_spec(path) if made_from_spec(resumed) else None
    return None if options["a_url"] is not None and not named else load_spec(path)


def _overrides(options: dict[str, Any]) -> dict[str, Any]:
    """What `run_options` takes: two addresses become arms, files are looked for where the command runs."""
    given = dict(options)
    first, second = given.pop("a_url"), given.pop("b_url")
    names = given.pop("a_name"), given.pop("b_name")
    models = given.pop("a_model"), given.pop("b_model")
    given["prompts"] = _from_here(given["prompts"])
    given["aa"] = given["aa"] or None
    if first is None and second is None:
        return given
    if first is None or (second is None and not given["aa"]):
        raise UsageError("two servers are compared", fix="--a URL --b URL (or --a URL --aa)")
    if given["urls"]:
        raise UsageError("--arm-url and --a, --b name the same arms", fix="one of the two")
    second = first if second is None else second
    given["urls"] = {"baseline": first, "speculative": second}
    given["labels"] = {"baseline": names[0] or first, "speculative": names[1] or second}
    asked = {"baseline": models[0], "speculative": models[1] or models[0]}
    given["models"] = {arm: model for arm, model in asked.items() if model is not None}
    return given


def _from_here(prompts: str | None) -> str | None:
    """A file named on the command line belongs to the current folder; one named in the spec to the spec's."""
    if prompts is None:
        return None
    path = Path(prompts)
    return str(path.absolute()) if path.exists() or path.suffix else prompts


def _gate_failure(result: RunResult, gates: Sequence[Any]) -> TrtspecError | None:
    from trtspec.reports.gates import check_gates, require_gates

    try:
        require_gates(check_gates(result.summary, gates))
    except (ThresholdFailed, UsageError) as error:
        return error
    return None


def _show(sink: Sink, result: RunResult, *, report: bool) -> None:
    from trtspec.reports import load_report, open_run, write_report
    from trtspec.reports.console import print_report

    source = open_run(result.path)
    data = load_report(source)
    lines = [f"run: {escape(str(result.path))}"]
    if report:
        lines.append(f"report: {escape(str(write_report(source, data).html))}")

    def human(console: Console) -> None:
        print_report(console, data)
        console.print("\n" + "\n".join(lines))

    sink.result(result.summary, human, quiet=str(result.path))
