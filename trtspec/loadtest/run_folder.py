"""The files of one run, and reading them back."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from trtspec.errors import RecordsError, UsageError
from trtspec.loadtest.beside import read_beside
from trtspec.loadtest.caveat import Caveat
from trtspec.loadtest.reading import read_table
from trtspec.loadtest.records import FILE_NAME, Record
from trtspec.loadtest.summary import summarise
from trtspec.loadtest.table import Table
from trtspec.loadtest.telemetry.samples import FILE_NAME as TELEMETRY
from trtspec.loadtest.telemetry.samples import Samples, read_samples
from trtspec.spec import SpecFile

__all__ = ["Run", "RunFolder", "fresh_folder", "latest_run", "read_run", "summarise_run"]


# the name of runs without a spec
_NO_SPEC = "ab"


@dataclass(frozen=True)
class RunFolder:
    """Where a run keeps what."""

    path: Path

    @property
    def provenance(self) -> Path:
        """What was run, on what, with which options; written before anything is measured."""
        return self.path / "provenance.json"

    @property
    def requests(self) -> Path:
        """One request a line."""
        return self.path / FILE_NAME

    @property
    def measurement(self) -> Path:
        """What the load generator saw of itself and of the servers."""
        return self.path / "measurement.json"

    @property
    def divergence(self) -> Path:
        """The places where the arms' texts part, examined."""
        return self.path / "divergence.json"

    @property
    def telemetry(self) -> Path:
        """What the servers and their GPUs showed while they were measured."""
        return self.path / TELEMETRY

    @property
    def summary(self) -> Path:
        """What is computed from all this."""
        return self.path / "summary.json"

    def server_log(self, arm: str) -> Path:
        """The log of an arm's server, where the load test started it."""
        return self.path / f"server-{arm}.log"


@dataclass(frozen=True)
class Run:
    """A run as read: its requests and, where they exist, what stands beside them."""

    path: Path
    table: Table
    provenance: dict[str, Any] = field(default_factory=dict)
    measurement: dict[str, Any] = field(default_factory=dict)
    divergences: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    samples: Samples = field(default_factory=Samples)

    @property
    def records(self) -> list[Record]:
        """All requests with their texts, read again. Meant for small runs."""
        return self.table.records(range(len(self.table)))


def read_run(path: Path) -> Run:
    """The run in a folder, or the one file of records at `path`; RecordsError when there is none."""
    if path.is_file() or not path.exists():
        warnings: list[str] = []
        return Run(path, read_table(path, warnings.append), warnings=warnings)
    folder, warnings = RunFolder(path), []
    table = read_table(folder.requests, warnings.append)
    provenance, measurement, divergence = (
        read_beside(file, warnings.append) for file in (folder.provenance, folder.measurement, folder.divergence)
    )
    samples = read_samples(folder.telemetry)
    return Run(path, table, provenance, measurement, divergence.get("divergences", []), warnings, samples)


def summarise_run(run: Run) -> dict[str, Any]:
    """`summarise` with all that the run has; what was wrong with its files is among the warnings.

    The same bytes wherever the folder lies: warnings name files, not paths.
    """
    summary = summarise(run.table, run.provenance, run.measurement, run.divergences, run.samples)
    found = [Caveat("unreadable-file", text) for text in run.warnings]
    summary["comparison"]["warnings"][:0] = [caveat.text for caveat in found]
    summary["comparison"]["caveats"][:0] = [caveat.to_json() for caveat in found]
    return summary


def fresh_folder(spec_file: SpecFile | None, out: Path | None, prefix: str = "") -> Path:
    """A new, empty folder: `out`, else one named by the time among the spec's runs (without a spec: runs/ab).

    UsageError when `out` holds something.
    """
    path = out
    if path is None:
        stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
        runs = Path("runs") / _NO_SPEC if spec_file is None else spec_file.runs
        path = runs / f"{prefix}{stamp}-{os.urandom(2).hex()}"
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError("the run's folder must be new or empty", where=str(path), fix="another --out, or none")
    path.mkdir(parents=True, exist_ok=True)
    return path


def latest_run(runs: Path) -> Path:
    """The newest run below `runs` that has records; RecordsError when there is none."""
    found = sorted(folder for folder in runs.glob("*") if (folder / FILE_NAME).is_file()) if runs.is_dir() else []
    if not found:
        raise RecordsError("no run there", where=str(runs), fix="trtspec loadtest SPEC")
    return found[-1]
