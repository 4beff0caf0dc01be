"""One load test from spec, or from two addresses, to summary."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from trtspec.errors import (
    LoadTestFailed,
    RequestFailed,
    ServerUnreachable,
    TrtspecError,
    UsageError,
    VerificationFailed,
)
from trtspec.files import read_json, write_json
from trtspec.loadtest.arms import check_repositories, open_arms, placement
from trtspec.loadtest.beside import read_beside
from trtspec.loadtest.claim import claimed
from trtspec.loadtest.descriptors import require_files
from trtspec.loadtest.divergence import LOGIC_FAULT
from trtspec.loadtest.machine import engine_facts, run_provenance
from trtspec.loadtest.options import RunOptions
from trtspec.loadtest.outcome import Outcome
from trtspec.loadtest.parts import Kept, joined_measurement, kept_loads
from trtspec.loadtest.plan import make_plan
from trtspec.loadtest.preview import load_processes, run_notes
from trtspec.loadtest.prompts import PromptSet
from trtspec.loadtest.resume import keep_blocks, options_of, require_unchanged
from trtspec.loadtest.run_folder import RunFolder, fresh_folder, read_run, summarise_run
from trtspec.loadtest.run_index import remember_run
from trtspec.loadtest.session import Assignment, measure
from trtspec.loadtest.status import Listener
from trtspec.loadtest.what import Questions, prepare
from trtspec.progress import Reporter
from trtspec.spec import SpecFile

__all__ = ["RunResult", "resume", "run"]


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
    with claimed(folder.path):
        write_json(folder.provenance, run_provenance(spec_file, options, questions.prompts))
        return _measured(_Run(spec_file, options, questions, folder), reporter, listener)


def resume(spec_file: SpecFile | None, path: Path, reporter: Reporter, listener: Listener | None = None) -> RunResult:
    """Go on with the interrupted run in `path`, with its own options; blocks that both arms answered are kept."""
    folder = RunFolder(path)
    options = replace(options_of(folder), out=path)
    questions = prepare(spec_file, options)
    if not options.urls and spec_file is not None:
        check_repositories(spec_file, options)
    before = read_beside(folder.provenance)
    if not _same_prompts(before.get("prompts", {}), questions.prompts):
        raise UsageError("its prompts have changed since", where=str(path), fix="start a new run: trtspec loadtest")
    require_unchanged(before, spec_file, path)
    with claimed(path):
        return _measured(_rest(spec_file, options, questions, before, reporter), reporter, listener)


def _rest(
    spec_file: SpecFile | None,
    options: RunOptions,
    questions: Questions,
    before: Mapping[str, Any],
    reporter: Reporter,
) -> _Run:
    """What is left of the run in `options.out`, whose folder is left with what is kept of it."""
    path = options.out
    assert path is not None, "a run that goes on has a folder"
    folder, levels = RunFolder(path), make_plan(questions.prompts.prompts, questions.shape)
    done = keep_blocks(folder, levels)
    if len(done) == sum(len(level.blocks) for level in levels):
        raise UsageError("this run is complete", where=str(path), fix=f"trtspec report {shlex.quote(str(path))}")
    kept = kept_loads(((level.label, [block.index for block in level.blocks]) for level in levels), done)
    earlier = read_beside(folder.measurement)
    again = [*before.get("resumed", []), datetime.now(timezone.utc).isoformat(timespec="seconds")]
    write_json(folder.provenance, {**before, "resumed": again})
    reporter.note(f"going on with {path}: {len(done)} blocks are kept")
    return _Run(spec_file, options, questions, folder, done, earlier, kept)


def _same_prompts(before: Mapping[str, Any], prompts: PromptSet) -> bool:
    now = prompts.as_json()
    return all(before.get(key, now[key]) == now[key] for key in ("sha256", "selected_sha256"))


@dataclass(frozen=True)
class _Run:
    """All that one run needs to begin; `done`, `earlier` (its measurement.json) and `kept` of one that goes on."""

    spec_file: SpecFile | None
    options: RunOptions
    questions: Questions
    folder: RunFolder
    done: frozenset[tuple[str, int]] = frozenset()
    earlier: Mapping[str, Any] = field(default_factory=dict)
    kept: Kept | None = None

    def measurement(self, outcome: Outcome) -> dict[str, Any]:
        """The content of measurement.json."""
        now = outcome.as_json()
        return now if self.kept is None else joined_measurement(self.earlier, now, self.kept)


def _measured(given: _Run, reporter: Reporter, listener: Listener | None) -> RunResult:
    options, questions = given.options, given.questions
    calibration = None if options.calibration is None else _noise_floor(options.calibration)
    processes = load_processes(options, questions.shape)
    if not options.multiplexed:
        closed = (level.concurrency for level in questions.shape.levels if level.closed)
        require_files(max(closed, default=1), processes)
    for note in run_notes(questions.prompts, questions.shape, options):
        reporter.note(f"note: {note}")
    with open_arms(given.spec_file, options, given.folder, reporter) as servers:
        assignment = Assignment(
            servers=servers,
            prompts=questions.prompts.prompts,
            shape=questions.shape,
            options=questions.send_options,
            folder=given.folder,
            patience=options.patience,
            workers=processes,
            dtype=_dtype(given.spec_file),
            runtime=None if given.spec_file is None else given.spec_file.spec.runtime,
            count_tokens=None if questions.tokens is None else questions.tokens.count,
            listener=listener,
            done=given.done,
        )
        outcome = measure(assignment)
    outcome.placement, outcome.calibration = placement(options), calibration
    return _finish(given.folder, outcome, given.measurement(outcome))


def _dtype(spec_file: SpecFile | None) -> str | None:
    return None if spec_file is None else (engine_facts(spec_file, "baseline") or {}).get("dtype")


def _noise_floor(path: Path) -> dict[str, Any]:
    """What an A/A run found, from its summary; UsageError when it is none."""
    try:
        comparison = read_json(path / "summary.json")["comparison"]
        floor, loads = comparison["noise_floor"], sorted(comparison["by_load"])
        is_aa = read_json(path / "provenance.json")["options"]["aa"]
    except (OSError, ValueError, KeyError, TypeError):
        floor, loads, is_aa = None, [], False
    if not is_aa or not isinstance(floor, dict):
        raise UsageError("not an A/A run", where=str(path), fix="trtspec loadtest SPEC --aa makes one")
    return {**floor, "run": path.name, "loads": loads}


def _new_folder(spec_file: SpecFile | None, options: RunOptions) -> Path:
    path = fresh_folder(spec_file, options.out)
    if spec_file is not None:
        remember_run(spec_file.runs, path)
    return path


def _finish(folder: RunFolder, outcome: Outcome, measurement: Mapping[str, Any]) -> RunResult:
    write_json(folder.measurement, measurement)
    if outcome.divergences:
        write_json(folder.divergence, {"schema": 1, "divergences": outcome.divergences})
    if not outcome.count:
        if outcome.interrupted:
            raise KeyboardInterrupt
        raise outcome.failure or LoadTestFailed("nothing was measured", where=str(folder.path))
    summary = summarise_run(read_run(folder.path))
    write_json(folder.summary, summary)
    return RunResult(folder.path, summary, _failure(folder, outcome, summary), outcome.interrupted)


def _failure(folder: RunFolder, outcome: Outcome, summary: dict[str, Any]) -> TrtspecError | None:
    fix = f"trtspec report {shlex.quote(str(folder.path))} shows what was measured"
    if outcome.failure is not None:
        return LoadTestFailed(f"the load test was stopped: {outcome.failure.message}", fix=fix)
    if outcome.stopped is not None:
        return ServerUnreachable(f"the load test was stopped: {outcome.stopped}", fix=fix)
    counts = [(arm["requests"]["ok"], arm["requests"]["failed"]) for arm in summary["arms"].values()]
    failed = sum(failed for _, failed in counts)
    if not failed:
        return _logic_fault(folder, outcome)
    reason = f" ({min(outcome.errors)})" if outcome.errors else ""
    where = str(folder.requests)
    if outcome.error_codes <= RequestFailed.REFUSALS and any(not answered for answered, _ in counts):
        # what was asked for is wrong, not a server
        return UsageError(f"the server refuses the requests{reason}", where=where, fix="other options, then a new run")
    return LoadTestFailed(f"{failed} requests failed{reason}", where=where, fix=fix)


def _logic_fault(folder: RunFolder, outcome: Outcome) -> TrtspecError | None:
    """Answers that speculation changed where the choice was clear: no result to build on."""
    faults = sum(one["verdict"] == LOGIC_FAULT for one in outcome.divergences)
    if not faults:
        return None
    message = f"{faults} answers differ where the target's choice was clear"
    return VerificationFailed(message, where=str(folder.divergence), fix="trtspec verify examines every prompt")
