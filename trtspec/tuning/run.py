"""One search from spec, or from two addresses, to its result; and going on with one that was interrupted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trtspec.errors import LoadTestFailed, TrtspecError, UsageError
from trtspec.files import read_json, write_json
from trtspec.loadtest.arms import ArmServer, check_repositories, open_arms
from trtspec.loadtest.loop import interruptible, run_loop
from trtspec.loadtest.machine import run_provenance
from trtspec.loadtest.reading import read_records
from trtspec.loadtest.records import Record, RecordWriter
from trtspec.loadtest.run_folder import RunFolder, fresh_folder
from trtspec.loadtest.sender import SendOptions
from trtspec.loadtest.what import Questions, prepare
from trtspec.progress import Reporter
from trtspec.spec import SpecFile
from trtspec.spec.names import Arm
from trtspec.tuning.bench import Bench
from trtspec.tuning.options import TuneOptions, options_of_json
from trtspec.tuning.result import result_of
from trtspec.tuning.search import Search, first_state
from trtspec.tuning.state import State
from trtspec.tuning.status import TuneListener

__all__ = ["FILE_NAME", "TuneResult", "made_from_spec", "resume", "tune"]

FILE_NAME = "tuning.json"
# not the load test's name: `report` looks for that
RECORDS = "tuning.jsonl"
_FIX = "start a new search: trtspec tune"


@dataclass(frozen=True)
class TuneResult:
    """A search: its folder, the content of tuning.json, and the error that it ends with."""

    path: Path
    data: dict[str, Any]
    failure: TrtspecError | None = None
    interrupted: bool = False


def tune(
    spec_file: SpecFile | None, options: TuneOptions, reporter: Reporter, listener: TuneListener | None = None
) -> TuneResult:
    """Search for the best draft length at every load; errors before the first request are raised.

    Ctrl-C ends in a result with what there is; `resume` goes on from there.
    """
    questions = prepare(spec_file, options.load)
    if not options.load.urls and spec_file is not None:
        check_repositories(spec_file)
    path = fresh_folder(spec_file, options.load.out, "tune-")
    facts = {**run_provenance(spec_file, options.load, questions.prompts), "options": options.as_json()}
    write_json(RunFolder(path).provenance, facts)
    state = first_state(options)
    state.write(path)
    return _Run(spec_file, options, questions, path, state, listener).go(reporter)


def resume(
    spec_file: SpecFile | None, path: Path, reporter: Reporter, listener: TuneListener | None = None
) -> TuneResult:
    """Go on with the interrupted search in `path`, with its own options; every whole block is kept."""
    state = State.read(path)
    before = _provenance(path)
    options = options_of_json(before["options"])
    options = replace(options, load=replace(options.load, out=path))
    questions = prepare(spec_file, options.load)
    if before.get("prompts", {}).get("sha256") != questions.prompts.sha256:
        raise UsageError("its prompts have changed since", where=str(path), fix=_FIX)
    if not options.load.urls and spec_file is not None:
        check_repositories(spec_file)
    kept = _kept_records(path, state)
    reporter.note(f"going on with {path}: rung {state.rung + 1}, {len(kept)} requests are kept")
    return _Run(spec_file, options, questions, path, state, listener, kept).go(reporter)


def made_from_spec(path: Path) -> bool:
    """Whether the search in `path` was of a spec's pair, not of two addresses alone."""
    return "spec" in _provenance(path)


def _provenance(path: Path) -> dict[str, Any]:
    try:
        data = read_json(RunFolder(path).provenance)
    except (OSError, ValueError):
        data = None
    if not isinstance(data, dict) or "lengths" not in (data.get("options") or {}):
        raise UsageError("no search to go on with", where=str(path), fix=_FIX)
    return data


def _kept_records(path: Path, state: State) -> list[Record]:
    """The records up to the last whole block; what came after it is removed from the file."""
    file = path / RECORDS
    if not state.bytes:
        file.unlink(missing_ok=True)
        return []
    with file.open("r+b") as stream:
        stream.truncate(state.bytes)
    records = read_records(file)
    if max(record.end_ns for record in records) > time.perf_counter_ns():
        raise UsageError("this machine was restarted since: times do not compare", where=str(path), fix=_FIX)
    return records


@dataclass
class _Run:
    spec_file: SpecFile | None
    options: TuneOptions
    questions: Questions
    path: Path
    state: State
    listener: TuneListener | None
    kept: list[Record] = field(default_factory=list)

    def go(self, reporter: Reporter) -> TuneResult:
        file = self.path / RECORDS
        prompts = self.questions.prompts.prompts
        search = Search(self.options, prompts, self.state, self.path, file, self.listener)
        for record in self.kept:
            search.keep(record)
        with open_arms(self.spec_file, self.options.load, RunFolder(self.path), reporter) as servers:
            interrupted, error = run_loop(_measured(search, servers, self.questions.send_options))
        if not search.records:
            raise error or LoadTestFailed("nothing was measured", where=str(self.path))
        if error is not None and error.fix is None:
            error.fix = f"trtspec tune SPEC --resume {self.path} goes on from there"
        data = result_of(search)
        write_json(self.path / FILE_NAME, data)
        return TuneResult(self.path, data, error or _failure(self.path, search, data), interrupted)


async def _measured(
    search: Search, servers: Mapping[Arm, ArmServer], options: SendOptions
) -> tuple[bool, TrtspecError | None]:
    """Run the search; whether it was interrupted, and the error that ended it."""

    async def work() -> None:
        with RecordWriter(search.file) as writer:

            def keep(record: Record) -> None:
                writer.write(record)
                search.keep(record)

            async with Bench(servers, options, keep) as bench:
                await search.run(bench)

    task = asyncio.create_task(work())
    with interruptible(task):
        try:
            await task
        except asyncio.CancelledError:
            return True, None
        except TrtspecError as error:
            return False, error
    return False, None


def _failure(path: Path, search: Search, data: Mapping[str, Any]) -> TrtspecError | None:
    if not search.failed:
        return None
    return LoadTestFailed(data["warnings"][0].rstrip("."), where=str(path / RECORDS))
