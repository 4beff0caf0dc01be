"""Where the runs of a spec are, also those that `--out` put elsewhere."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from trtspec.files import json_lines, read_json, write_text
from trtspec.loadtest.records import FILE_NAME

__all__ = ["known_runs", "remember_run", "started"]

# beside the runs' folders: one absolute path a line
INDEX = "elsewhere.txt"
_STAMP = re.compile(r"(\d{8}-\d{6})\b.*")


def remember_run(runs: Path, folder: Path) -> None:
    """Note that a run of the spec whose runs are in `runs` lies in `folder`; nothing to note when that is inside.

    A `runs` that cannot be written is no reason to fail a load test.
    """
    path = folder.absolute()
    if path.parent == runs.absolute():
        return
    paths = [line for line in _lines(runs) if line != str(path)]
    with suppress(OSError):
        write_text(runs / INDEX, "".join(f"{line}\n" for line in [*paths, path]))


def known_runs(runs: Path) -> list[Path]:
    """Every run of a spec that has records, the oldest first."""
    folders = [*(runs.glob("*") if runs.is_dir() else ()), *(Path(line) for line in _lines(runs))]
    return sorted(
        (path for path in folders if (path / FILE_NAME).is_file()), key=lambda path: (started(path), path.name)
    )


def _lines(runs: Path) -> list[str]:
    try:
        return [line for line in json_lines((runs / INDEX).read_text(encoding="utf-8")) if line.strip()]
    except (OSError, UnicodeDecodeError):
        return []


def started(run: Path) -> float:
    """When a run began, in seconds since 1970: by its folder's name, its provenance, else the age of its records."""
    if found := _STAMP.fullmatch(run.name):
        with suppress(ValueError):
            return datetime.strptime(found[1], "%Y%m%d-%H%M%S").replace(tzinfo=timezone.utc).timestamp()
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        created = datetime.fromisoformat(str(read_json(run / "provenance.json")["created"]))
        return (created if created.tzinfo else created.replace(tzinfo=timezone.utc)).timestamp()
    records = run / FILE_NAME if run.is_dir() else run
    return records.stat().st_mtime if records.exists() else 0.0
