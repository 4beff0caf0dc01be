"""Going on with a run that was interrupted: what is whole of it stays, the rest is measured."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trtspec.errors import RecordsError, UsageError
from trtspec.files import read_json, write_bytes
from trtspec.loadtest.machine import spec_facts
from trtspec.loadtest.options import RunOptions, options_from_json
from trtspec.loadtest.plan import Level
from trtspec.loadtest.reading import NO_REQUESTS, read_records
from trtspec.loadtest.records import Record
from trtspec.loadtest.run_folder import RunFolder
from trtspec.spec import SpecFile
from trtspec.spec.names import ARMS

__all__ = ["blocks_done", "keep_blocks", "made_from_spec", "options_of", "require_unchanged"]

_FIX = "start a new run: trtspec loadtest SPEC"


def options_of(folder: RunFolder) -> RunOptions:
    """The options that the run was started with; UsageError when the folder is no run that can go on."""
    try:
        data = read_json(folder.provenance)
    except (OSError, ValueError):
        data = None
    if not isinstance(data, dict) or not isinstance(data.get("options"), dict):
        raise UsageError("no run to go on with", where=str(folder.path), fix=_FIX)
    options = options_from_json(data["options"])
    if options.patience.open_ended:
        raise UsageError("a run with --duration or --until has no plan to go on with", where=str(folder.path), fix=_FIX)
    return options


def made_from_spec(path: Path) -> bool:
    """Whether the run in the folder `path` was one of a spec's pair, not of two addresses alone."""
    try:
        data = read_json(RunFolder(path).provenance)
    except (OSError, ValueError):
        return False
    return isinstance(data, dict) and "spec" in data


def require_unchanged(before: Mapping[str, Any], spec_file: SpecFile | None, path: Path) -> None:
    """UsageError when the pair is another one than that of the run in `path`, whose provenance is `before`.

    The spec but for its load-test section (a run goes on with its own options), and the engines.
    """
    if spec_file is None:
        return
    now, was = _pair(spec_facts(spec_file)), _pair(before)
    changed = [name for name in ("spec", "engines") if now[name] != was[name]]
    if changed:
        what = " and ".join(changed)
        raise UsageError(f"its {what} changed since: the parts do not compare", where=str(path), fix=_FIX)


def _pair(provenance: Mapping[str, Any]) -> dict[str, Any]:
    spec = provenance.get("spec") or {}
    # as it is read back from a file
    found: dict[str, Any] = json.loads(
        json.dumps(
            {"spec": {key: spec[key] for key in spec if key != "loadtest"}, "engines": provenance.get("engines")}
        )
    )
    return found


def keep_blocks(folder: RunFolder, levels: Sequence[Level]) -> frozenset[tuple[str, int]]:
    """The blocks (load, index) of the plan that both arms have answered; what else was recorded is removed.

    UsageError when this machine was started anew since: its clock is another one. RecordsError for a broken line.
    """
    if not folder.requests.is_file():
        return frozenset()
    try:
        records = read_records(folder.requests)
    except RecordsError as error:
        if error.message != NO_REQUESTS:
            raise
        # nothing is in it but the beginning of a line, perhaps
        write_bytes(folder.requests, b"")
        return frozenset()
    if max(record.end_ns for record in records) > time.perf_counter_ns():
        raise UsageError("this machine was restarted since: times do not compare", where=str(folder.path), fix=_FIX)
    done = blocks_done(records, levels)
    # texts may hold what Python takes for an end of line elsewhere; a last line that is cut off has no record
    lines = [line for line in folder.requests.read_bytes().split(b"\n") if line and not line.isspace()]
    kept = (line for line, record in zip(lines, records, strict=False) if (record.load, record.block) in done)
    write_bytes(folder.requests, b"".join(line + b"\n" for line in kept))
    return done


def blocks_done(records: Iterable[Record], levels: Sequence[Level]) -> frozenset[tuple[str, int]]:
    """Blocks whose every request both arms have a record of that the load test did not break off itself."""
    sent: dict[tuple[str, int | None, str], set[str | None]] = defaultdict(set)
    for record in records:
        if record.excluded is None and record.cancel_reason != "stop" and record.error_code != "not_sent":
            sent[record.load, record.block, record.arm].add(record.pair_id)
    return frozenset(
        (level.label, block.index)
        for level in levels
        for block in level.blocks
        if all({job.pair_id for job in block.jobs} <= sent[level.label, block.index, arm] for arm in ARMS)
    )
