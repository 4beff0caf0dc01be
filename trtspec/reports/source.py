"""Which raw file a report is made of: a run folder, a requests.jsonl, or the newest run of a spec."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trtspec.errors import ArtefactMissing
from trtspec.loadtest.records import FILE_NAME
from trtspec.loadtest.run_index import known_runs, started
from trtspec.spec import SpecFile

__all__ = ["RunSource", "newest_anywhere", "newest_run", "open_run"]


@dataclass(frozen=True)
class RunSource:
    """A run folder, or one file of records, and its name for people."""

    path: Path
    name: str

    @property
    def standalone(self) -> bool:
        """True for a file of records that is no run folder's."""
        return self.path.is_file()

    @property
    def html(self) -> Path:
        """Where the HTML report goes unless the user says otherwise."""
        return self.path.with_suffix(".html") if self.standalone else self.path / "report.html"

    @property
    def csv(self) -> Path:
        """The folder of the CSV files unless the user says otherwise."""
        return self.path.with_name(f"{self.path.stem}-csv") if self.standalone else self.path


def open_run(path: Path) -> RunSource:
    """The run at `path`: a folder that holds requests.jsonl, that file, or any file of its form.

    ArtefactMissing when it is none of them. A run's requests.jsonl stands for its folder, so that the report is the
    same whichever of the two is named.
    """
    if path.is_dir() and (path / FILE_NAME).is_file():
        return RunSource(path, path.resolve().name)
    if path.is_dir() or not path.exists():
        what = f"no {FILE_NAME} in this folder" if path.is_dir() else "no such run"
        raise ArtefactMissing(what, where=str(path), fix="trtspec loadtest SPEC makes a run below runs/")
    if path.name == FILE_NAME:
        return RunSource(path.parent, path.resolve().parent.name)
    return RunSource(path, path.stem)


def newest_run(spec_file: SpecFile) -> RunSource:
    """The newest run of a spec, wherever `--out` put it; ArtefactMissing when there is none."""
    return _newest(known_runs(spec_file.runs), spec_file.runs, f"trtspec loadtest {spec_file.path}")


def newest_anywhere(runs: Path) -> RunSource:
    """The newest run below `runs` (runs/NAME/RUN), for runs that were made without a spec; ArtefactMissing else."""
    found = [run for folder in sorted(runs.glob("*")) if folder.is_dir() for run in known_runs(folder)]
    return _newest(sorted(found, key=started), runs, "trtspec loadtest SPEC, or trtspec report RUN")


def _newest(found: Sequence[Path], where: Path, fix: str) -> RunSource:
    if not found:
        raise ArtefactMissing("no run yet", where=str(where), fix=fix)
    return open_run(found[-1])
