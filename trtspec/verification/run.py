"""One verification from spec, or from two addresses, to its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trtspec.errors import LoadTestFailed, TrtspecError, VerificationFailed
from trtspec.files import write_json
from trtspec.loadtest.arms import ArmServer, check_repositories, open_arms
from trtspec.loadtest.jobs import Job
from trtspec.loadtest.loop import run_loop
from trtspec.loadtest.machine import engine_facts, run_provenance
from trtspec.loadtest.prompts import PromptSet
from trtspec.loadtest.run_folder import RunFolder, fresh_folder
from trtspec.loadtest.sender import SendOptions
from trtspec.loadtest.what import prepare
from trtspec.progress import Reporter
from trtspec.spec import SpecFile
from trtspec.spec.names import ARMS, Arm
from trtspec.verification.comparing import Comparison, jobs_of
from trtspec.verification.distribution import distribution_section
from trtspec.verification.greedy import answered_pairs, diverged_pairs, equality_section
from trtspec.verification.options import VerifyOptions
from trtspec.verification.sampling import Sampling
from trtspec.verification.tasks import TaskSet, load_tasks, task_section
from trtspec.verification.verdict import judge

__all__ = ["FILE_NAME", "VerifyResult", "verify"]

FILE_NAME = "verification.json"
# not the load test's name: `report` looks for that
_ANSWERS = "answers.jsonl"
_SAMPLES = "samples.jsonl"


@dataclass(frozen=True)
class VerifyResult:
    """A finished verification: its folder, the content of verification.json, and the error that it ends with."""

    path: Path
    data: dict[str, Any]
    failure: TrtspecError | None = None


def verify(spec_file: SpecFile | None, options: VerifyOptions, reporter: Reporter) -> VerifyResult:
    """Compare both arms' answers and write the result's folder; errors before the first request are raised."""
    work = _Verification(spec_file, options, reporter)
    if not options.load.urls and spec_file is not None:
        check_repositories(spec_file)
    folder = RunFolder(fresh_folder(spec_file, options.load.out, "verify-"))
    facts = {**run_provenance(spec_file, options.load, work.prompts), "options": options.as_json()}
    write_json(folder.provenance, facts)
    with open_arms(spec_file, options.load, folder, reporter) as servers:
        sections = work.sampled(servers, folder) if options.sampled else work.compared(servers, folder)
    return _finished(folder, options, sections)


class _Verification:
    def __init__(self, spec_file: SpecFile | None, options: VerifyOptions, reporter: Reporter) -> None:
        self._spec_file, self._options, self._reporter = spec_file, options, reporter
        self._tasks: TaskSet | None = None if options.tasks is None else load_tasks(options.tasks)
        questions = prepare(spec_file, options.load)
        self.prompts: PromptSet = questions.prompts if self._tasks is None else self._tasks.prompts
        self._send: SendOptions = questions.send_options
        if self._tasks is not None:
            # every task counts
            load = replace(options.load, requests=len(self._tasks.tasks))
            self._options = replace(options, load=load)

    @property
    def _jobs(self) -> list[Job]:
        return jobs_of(self.prompts.prompts, self._options)

    def compared(self, servers: Mapping[Arm, ArmServer], folder: RunFolder) -> dict[str, Any]:
        """The sections of answers that are compared one by one."""
        jobs, levels = self._jobs, self._options.load.concurrency
        total = len(ARMS) * len(jobs) * len(levels)
        with self._reporter.task("comparing answers", total, "answers") as advance:
            work = Comparison(servers, self._send, levels, jobs, folder.path / _ANSWERS, lambda: advance(1))
            return run_loop(self._compare(work))

    async def _compare(self, work: Comparison) -> dict[str, Any]:
        await work.ask()
        pairs = answered_pairs(work.records)
        errors = [record.error or "an empty answer" for record in work.records if record.failed]
        sections: dict[str, Any] = {"answers": _counted(len(work.records), errors)}
        if self._send.temperature == 0:
            diverged = diverged_pairs(pairs, work.jobs)
            if diverged:
                self._reporter.note(f"examining {len(diverged)} answers that differ")
            examined = await work.examine(diverged, *self._arithmetic())
            sections["equality"] = equality_section(pairs, examined, work.out_of_reach())
        if self._tasks is not None:
            sections["tasks"] = task_section(self._tasks.tasks, pairs, self._options.significance)
        return sections

    def _arithmetic(self) -> tuple[str | None, str | None]:
        if self._spec_file is None:
            return None, None
        return (engine_facts(self._spec_file, "baseline") or {}).get("dtype"), self._spec_file.spec.runtime

    def sampled(self, servers: Mapping[Arm, ArmServer], folder: RunFolder) -> dict[str, Any]:
        """The section of answers whose distributions are compared."""
        jobs, options = self._jobs, self._options
        total = len(ARMS) * len(jobs) * options.samples
        with self._reporter.task("drawing samples", total, "samples") as advance:
            file = folder.path / _SAMPLES
            sampling = Sampling(servers, self._send, jobs, options, file, lambda: advance(1))
            drawn = run_loop(sampling.draw())
        section = distribution_section(drawn, options.significance, options.load.seed)
        return {"answers": _counted(total, sampling.errors), "distribution": section}


def _counted(total: int, errors: Sequence[str]) -> dict[str, Any]:
    return {"asked": total, "failed": len(errors), "errors": sorted(set(errors))[:10]}


def _finished(folder: RunFolder, options: VerifyOptions, sections: Mapping[str, Any]) -> VerifyResult:
    parts = {name: sections.get(name) for name in ("equality", "distribution", "tasks")}
    verdict = judge(parts["equality"], parts["distribution"], parts["tasks"], strict=options.strict)
    data = {
        "schema": 1,
        "verdict_code": verdict.code,
        "verdict": verdict.sentence,
        "passed": not verdict.failed,
        "temperature": options.load.temperature,
        "strict": options.strict,
        "answers": sections["answers"],
        **parts,
    }
    write_json(folder.path / FILE_NAME, data)
    return VerifyResult(folder.path, data, _failure(folder, data))


def _failure(folder: RunFolder, data: Mapping[str, Any]) -> TrtspecError | None:
    answers, where = data["answers"], str(folder.path / FILE_NAME)
    if not data["passed"]:
        fix = "each place is in that file; a draft or target engine that was built otherwise is the usual reason"
        return VerificationFailed(data["verdict"], where=where, fix=fix)
    if answers["failed"]:
        reason = f" ({answers['errors'][0]})"
        return LoadTestFailed(f"{answers['failed']} of {answers['asked']} requests failed{reason}", where=where)
    if data["verdict_code"] == "INCONCLUSIVE":
        return LoadTestFailed(data["verdict"], where=where)
    return None
