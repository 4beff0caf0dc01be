"""Reading a load test's run for the planner, from its folder, its records or its summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trtspec.errors import RecordsError
from trtspec.planning.measured import MeasuredRun, measured_run

__all__ = ["read_measured"]

_MOST_TOKENS = 1 << 24  # of one prompt or answer; a counter that says more is none


def read_measured(path: Path) -> MeasuredRun:
    """The run in a folder, in a requests.jsonl, or in a summary.json; RecordsError when it is none of them."""
    if path.is_file() and path.suffix == ".json":
        return measured_run(path, _summary(path))
    from trtspec.loadtest.run_folder import read_run, summarise_run

    if path.is_dir() and not (path / "requests.jsonl").exists() and (path / "summary.json").is_file():
        return measured_run(path, _summary(path / "summary.json"))
    run = read_run(path)
    counters = [record.server for record in run.records if record.server is not None and record.ok]
    prompts = _mean([item.num_input_tokens for item in counters])
    outputs = _mean([item.num_output_tokens for item in counters])
    spec = run.provenance.get("spec")
    found = measured_run(path, summarise_run(run), prompts, outputs)
    return replace(found, name=_text(spec, "name"), runtime=_text(spec, "runtime"))


def _text(section: Any, key: str) -> str | None:
    value = section.get(key) if isinstance(section, Mapping) else None
    return value if isinstance(value, str) else None


def _summary(path: Path) -> Mapping[str, Any]:
    from trtspec.files import read_json

    fix = "--measured takes a run's folder, its requests.jsonl or its summary.json"
    try:
        data = read_json(path)
    except (OSError, ValueError, RecursionError) as error:
        raise RecordsError(f"cannot be read: {error}", where=str(path), fix=fix) from None
    if not isinstance(data, dict) or not isinstance(data.get("arms"), dict) or "acceptance" not in data:
        raise RecordsError("is no summary of a load test", where=str(path), fix=fix)
    return data


def _mean(values: list[int | None]) -> int | None:
    known = [value for value in values if value and value <= _MOST_TOKENS]
    return round(sum(known) / len(known)) if known else None
