"""One load test from spec, or from two addresses, to summary."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from trtspec.errors import LoadTestFailed, ServerUnreachable, TrtspecError, UsageError
from trtspec.files import read_json, write_json
from trtspec.loadtest.arms import check_repositories, open_arms, placement
from trtspec.loadtest.jobs import Shape
from trtspec.loadtest.machine import engine_facts, run_provenance
from trtspec.loadtest.options import RunOptions
from trtspec.loadtest.outcome import Outcome
from trtspec.loadtest.plan import few_blocks, make_plan
from trtspec.loadtest.prompts import PromptSet
from trtspec.loadtest.resume import keep_blocks, options_of
from trtspec.loadtest.run_folder import RunFolder, read_run, summarise_run
from trtspec.loadtest.run_index import remember_run
from trtspec.loadtest.session import Assignment, measure
from trtspec.loadtest.status import Listener
from trtspec.loadtest.what import Questions, prepare
from trtspec.progress import Reporter
from trtspec.spec import SpecFile

__all__ = ["NO_SPEC", "RunResult", "resume", "run"]

# the name of runs without a spec
NO_SPEC = "ab"
_CONNECTIONS_PER_WORKER = 256


@dataclass(frozen=True)
class RunResult:
    """A finished run: its folder, its summary, and what is to be told as an error although all is written."""

    path: Path
    summary: dict[str, Any]
    failure: TrtspecError | None = None
    interrupted: bool = False


def run(
    spec_file: SpecFile | None, options: RunOptions, reporter: Reporter, listener: Listener | None = None
) -> RunResult:
    """Measure both arms and write the run's folder: provenance first, records as they come, then the summary.

    Errors before the first request are raised. Requests that fail, a server that dies and Ctrl-C end in a result with
    everything that was measured. Without a spec, `options.urls` are the arms.
    """
    questions = prepare(spec_file, options)
    if not options.urls and spec_file is not None:
        check_repositories(spec_file, options)
    folder = RunFolder(_new_folder(spec_file, options))
    write_json(folder.provenance, run_provenance(spec_file, options, questions.prompts))
    return _measured(_Run(spec_file, options, questions, folder), reporter, listener)


def resume(spec_file: SpecFile | None, path: Path, reporter: Reporter, listener: Listener | None = None) -> RunResult:
    """Go on with the interrupted run in `path`, with its own options; blocks that both arms answered are kept."""
    folder = RunFolder(path)
    options = replace(options_of(folder), out=path)
    questions = prepare(spec_file, options)
    if not options.urls and spec_file is not None:
        check_repositories(spec_file, options)
    before = read_json(folder.provenance)
    if before.get("prompts", {}).get("sha256") != questions.prompts.sha256:
        raise UsageError("its prompts have changed since", where=str(path), fix="start a new run: trtspec loadtest")
    done = keep_blocks(folder, make_plan(questions.prompts.prompts, questions.shape))
    again = [*before.get("resumed", []), datetime.now(timezone.utc).isoformat(timespec="seconds")]
    write_json(folder.provenance, {**before, "resumed": again})
    reporter.note(f"going on with {path}: {len(done)} blocks are kept")
    return _measured(_Run(spec_file, options, questions, folder, done), reporter, listener)


@dataclass(frozen=True)
class _Run:
    """All that one run needs to begin."""

    spec_file: SpecFile | None
    options: RunOptions
    questions: Questions
    folder: RunFolder
    done: frozenset[tuple[str, int]] = frozenset()

    @property
    def workers(self) -> int:
        """Processes that send: as asked, else by the number of connections as far as half of the CPUs allow."""
        if self.options.workers is not None:
            return self.options.workers
        most = max((traffic.concurrency for traffic in self.questions.shape.levels), default=1)
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return max(1, min(cpus // 2, -(-most // _CONNECTIONS_PER_WORKER)))


def _measured(given: _Run, reporter: Reporter, listener: Listener | None) -> RunResult:
    options, questions = given.options, given.questions
    calibration = None if options.calibration is None else _noise_floor(options.calibration)
    _tell_few_blocks(questions.prompts, questions.shape, options, reporter)
    with open_arms(given.spec_file, options, given.folder, reporter) as servers:
        assignment = Assignment(
            servers=servers,
            prompts=questions.prompts.prompts,
            shape=questions.shape,
            options=questions.send_options,
            folder=given.folder,
            patience=options.patience,
            workers=given.workers,
            dtype=_dtype(given.spec_file),
            count_tokens=None if questions.tokens is None else questions.tokens.count,
            listener=listener,
            done=given.done,
        )
        outcome = measure(assignment)
    outcome.placement, outcome.calibration = placement(options), calibration
    return _finish(given.folder, outcome)


def _tell_few_blocks(prompts: PromptSet, shape: Shape, options: RunOptions, reporter: Reporter) -> None:
    if options.patience.open_ended:
        return
    for level in make_plan(prompts.prompts, shape):
        few = few_blocks(level)
        if few is not None:
            reporter.note(f"note: {few}")


def _dtype(spec_file: SpecFile | None) -> str | None:
    return None if spec_file is None else (engine_facts(spec_file, "baseline") or {}).get("dtype")


def _noise_floor(path: Path) -> dict[str, Any]:
    """What an A/A run found, from its summary; UsageError when it is none."""
    try:
        floor = read_json(path / "summary.json")["comparison"]["noise_floor"]
        is_aa = read_json(path / "provenance.json")["options"]["aa"]
    except (OSError, ValueError, KeyError, TypeError):
        floor, is_aa = None, False
    if not is_aa or not isinstance(floor, dict):
        raise UsageError("not an A/A run", where=str(path), fix="trtspec loadtest SPEC --aa makes one")
    return floor


def _new_folder(spec_file: SpecFile | None, options: RunOptions) -> Path:
    path = options.out
    if path is None:
        stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
        runs = Path("runs") / NO_SPEC if spec_file is None else spec_file.runs
        path = runs / f"{stamp}-{os.urandom(2).hex()}"
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError("the run's folder must be new or empty", where=str(path), fix="another --out, or none")
    path.mkdir(parents=True, exist_ok=True)
    if spec_file is not None:
        remember_run(spec_file.runs, path)
    return path


def _finish(folder: RunFolder, outcome: Outcome) -> RunResult:
    write_json(folder.measurement, outcome.as_json())
    if outcome.divergences:
        write_json(folder.divergence, {"schema": 1, "divergences": outcome.divergences})
    if not outcome.count:
        raise LoadTestFailed("nothing was measured", where=str(folder.path))
    summary = summarise_run(read_run(folder.path))
    write_json(folder.summary, summary)
    return RunResult(folder.path, summary, _failure(folder, outcome, summary), outcome.interrupted)


def _failure(folder: RunFolder, outcome: Outcome, summary: dict[str, Any]) -> TrtspecError | None:
    fix = f"trtspec report {folder.path} shows what was measured"
    if outcome.stopped is not None:
        return ServerUnreachable(f"the load test was stopped: {outcome.stopped}", fix=fix)
    failed = sum(arm["requests"]["failed"] for arm in summary["arms"].values())
    if not failed:
        return None
    reason = f" ({min(outcome.errors)})" if outcome.errors else ""
    return LoadTestFailed(f"{failed} requests failed{reason}", where=str(folder.requests), fix=fix)
