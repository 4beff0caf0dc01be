"""One load test from spec to summary."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from trtspec.errors import LoadTestFailed, ServerUnreachable, TrtspecError, UsageError
from trtspec.files import write_json
from trtspec.loadtest.arms import check_repositories, open_arms
from trtspec.loadtest.machine import engine_facts, run_provenance
from trtspec.loadtest.options import RunOptions
from trtspec.loadtest.plan import make_plan
from trtspec.loadtest.prompts import PromptSet, load_prompts
from trtspec.loadtest.run_folder import RunFolder, read_run, summarise_run
from trtspec.loadtest.sender import SendOptions
from trtspec.loadtest.session import Assignment, Outcome, measure
from trtspec.loadtest.status import Listener
from trtspec.progress import Reporter
from trtspec.spec import SpecFile

__all__ = ["RunResult", "run"]


@dataclass(frozen=True)
class RunResult:
    """A finished run: its folder, its summary, and what is to be told as an error although all is written."""

    path: Path
    summary: dict[str, Any]
    failure: TrtspecError | None = None
    interrupted: bool = False


def run(spec_file: SpecFile, options: RunOptions, reporter: Reporter, listener: Listener | None = None) -> RunResult:
    """Measure both arms and write the run's folder: provenance first, records as they come, then the summary.

    Errors before the first request are raised. Requests that fail, a server that dies and Ctrl-C end in a result with
    everything that was measured.
    """
    prompts = load_prompts(options.prompts, root=spec_file.root, seed=options.seed)
    if not options.urls:
        check_repositories(spec_file)
    folder = RunFolder(_new_folder(spec_file, options))
    write_json(folder.provenance, run_provenance(spec_file, options, prompts))
    with open_arms(spec_file, options, folder, reporter) as servers:
        assignment = Assignment(
            servers=servers,
            levels=make_plan(prompts.prompts, options.shape),
            prompts=prompts.prompts,
            options=_send_options(spec_file, options, prompts),
            folder=folder,
            dtype=(engine_facts(spec_file, "baseline") or {}).get("dtype"),
            listener=listener,
        )
        outcome = measure(assignment)
    return _finish(folder, outcome)


def _new_folder(spec_file: SpecFile, options: RunOptions) -> Path:
    path = options.out
    if path is None:
        stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
        path = spec_file.runs / f"{stamp}-{os.urandom(2).hex()}"
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError("the run's folder must be new or empty", where=str(path), fix="another --out, or none")
    path.mkdir(parents=True, exist_ok=True)
    return path


def _send_options(spec_file: SpecFile, options: RunOptions, prompts: PromptSet) -> SendOptions:
    return SendOptions(
        render=_renderer(spec_file, options),
        temperature=options.temperature,
        timeout=options.timeout,
        draft_length=options.draft_length,
        synthetic=prompts.synthetic,
    )


def _renderer(spec_file: SpecFile, options: RunOptions) -> Any:
    if options.chat_template == "never":
        return str
    from trtspec.checkpoints.chat import render_user

    return partial(render_user, spec_file.checkpoint("target"))


def _finish(folder: RunFolder, outcome: Outcome) -> RunResult:
    write_json(folder.measurement, outcome.as_json())
    if outcome.divergences:
        write_json(folder.divergence, {"schema": 1, "divergences": outcome.divergences})
    if not outcome.records:
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
    reasons = {record.error for record in outcome.records if record.error and record.excluded is None}
    return LoadTestFailed(f"{failed} requests failed ({min(reasons)})", where=str(folder.requests), fix=fix)
