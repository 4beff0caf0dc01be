"""`trtspec loadtest`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from trtspec.cli.arm_addresses import arms_of_addresses, require_own_options, spec_is_named, spec_or_addresses
from trtspec.cli.command import command as make_command
from trtspec.cli.command import command_line, examples, spec_argument
from trtspec.cli.failures import INTERRUPTED, exit_code, show_error
from trtspec.cli.load_options import HEADINGS, load_options
from trtspec.cli.output import Sink
from trtspec.errors import ThresholdFailed, TrtspecError, UsageError
from trtspec.spec import SpecFile, load_spec

if TYPE_CHECKING:
    from trtspec.loadtest import RunResult

__all__ = ["command"]

# what does not change the measurement, and what has a message of its own
_BESIDE_RESUME = {"resumed", "gates", "report", "progress", "output", "debug", "dry_run"}


@make_command(
    epilog=examples(
        "trtspec loadtest",
        "trtspec loadtest trtspec.yaml --concurrency 1,4,16 --requests 200",
        "trtspec loadtest --rate 0.5,2,8 --slo ttft=500ms,tpot=50ms",
        "trtspec loadtest --profile 2:60,2..10:120 --arrivals gamma --burstiness 0.5",
        "trtspec loadtest --trace conversation_trace.jsonl --trace-speed 2",
        "trtspec loadtest --until 5% --concurrency 1",
        "trtspec loadtest --concurrency 1,4,16 --dry-run",
        "trtspec loadtest --aa",
        "trtspec loadtest --prompts mine.jsonl --draft-length 6 --out runs/six",
        "trtspec loadtest --categories code,extraction --language en,zh",
        "trtspec loadtest --prompts question.jsonl --turns 1 --system-prompt @rules.txt",
        "trtspec loadtest --arm-url speculative=http://gpu1:8000 --arm-url baseline=http://gpu2:8000",
        "trtspec loadtest --a http://gpu1:8000/v1 --b http://gpu2:8000/v1 --tokenizer ./Llama-3.1-8B-Instruct",
        "trtspec loadtest --fail-if 'speedup.output_tokens_per_second.low < 1.0'",
        "trtspec loadtest --output json --progress json | jq .comparison.verdict",
    ),
    headings=HEADINGS,
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
    report, progress, dry_run = options.pop("report"), options.pop("progress"), options.pop("dry_run")
    spec_file = _spec(spec_path, options, resumed)
    if dry_run:
        _preview(sink, spec_file, options, resumed)
        return None
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


def _preview(sink: Sink, spec_file: SpecFile | None, options: dict[str, Any], resumed: Path | None) -> None:
    from trtspec.cli.load_preview import print_preview
    from trtspec.loadtest import preview, run_options

    if resumed is not None:
        raise UsageError("--dry-run shows the plan of a new run", fix="--dry-run without --resume")
    plan = preview(spec_file, run_options(spec_file, **_overrides(options)))
    sink.result(plan, lambda console: print_preview(console, plan), quiet=str(plan["requests"]))


def _spec(path: Path, options: dict[str, Any], resumed: Path | None) -> SpecFile | None:
    """The spec; None where two addresses are compared and none was named."""
    if resumed is not None:
        require_own_options(_BESIDE_RESUME)
    if resumed is not None and not spec_is_named():
        from trtspec.loadtest.resume import made_from_spec

        return load_spec(path) if made_from_spec(resumed) else None
    return spec_or_addresses(path, options["a_url"])


def _overrides(options: dict[str, Any]) -> dict[str, Any]:
    given = arms_of_addresses(options)
    given["aa"] = given["aa"] or None
    return given


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
