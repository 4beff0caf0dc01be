"""The files of a report, each written whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from trtspec.errors import UsageError
from trtspec.files import json_text, write_bytes, write_json, write_pieces, write_text
from trtspec.reports.csv_files import csv_files, request_csv
from trtspec.reports.data import ReportData
from trtspec.reports.gates import GateResult
from trtspec.reports.history import History
from trtspec.reports.html import render_html
from trtspec.reports.source import RunSource

__all__ = ["Places", "ReportFiles", "write_exports", "write_report"]

# a table of more requests than these is written only when asked for: nobody opens it, and it takes longer than all else
_MANY_REQUESTS = 100_000


@dataclass(frozen=True)
class Places:
    """Where each form goes that was asked for; None is not written (the page and the tables: the run's folder)."""

    html: Path | None = None
    csv: Path | None = None
    markdown: Path | None = None
    junit: Path | None = None
    json: Path | None = None
    parquet: Path | None = None
    aiperf: Path | None = None


@dataclass(frozen=True)
class ReportFiles:
    """Where a report lies: the page, the CSV tables, and what else was asked for, by its form."""

    html: Path
    csv: tuple[Path, ...]
    exports: dict[str, Path] = field(default_factory=dict)


def write_report(
    source: RunSource, data: ReportData, *, html: Path | None = None, csv: Path | None = None
) -> ReportFiles:
    """Write the page to `html` and the tables into the folder `csv`, by default into the run's folder.

    UsageError when a place cannot be written. requests.csv of a very large run is written only into a folder that was
    asked for.
    """
    page, folder = html or source.html, csv or source.csv
    tables = {folder / name: text for name, text in csv_files(data).items()}
    with _writing(page, "--html PATH and --csv FOLDER"):
        write_text(page, render_html(data))
        for path, text in tables.items():
            write_text(path, text)
        if csv is not None or len(data.table) <= _MANY_REQUESTS:
            write_pieces(
                folder / "requests.csv", (text.encode("utf-8", "backslashreplace") for text in request_csv(data))
            )
            tables[folder / "requests.csv"] = ""
    return ReportFiles(page, tuple(tables))


def write_exports(data: ReportData, places: Places, gates: Sequence[GateResult] = ()) -> dict[str, Path]:
    """Write what else was asked for; form → where it lies. UsageError when a place cannot be written."""
    from trtspec.reports.junit import render_junit
    from trtspec.reports.markdown import render_markdown

    texts: dict[str, Callable[[], str]] = {
        "markdown": lambda: render_markdown(data, gates),
        "junit": lambda: render_junit(data, gates),
        "json": lambda: json_text(data.summary),
    }
    written = _write_texts(texts, places)
    folders: dict[str, Callable[[Path], None]] = {
        "parquet": lambda folder: _parquet(data, folder),
        "aiperf": lambda folder: _aiperf(data, folder),
    }
    for form, write in folders.items():
        place = getattr(places, form)
        if place is not None:
            with _writing(place, f"--{form} FOLDER"):
                write(place)
            written[form] = place
    return written


def write_history(history: History, places: Places, gates: Sequence[GateResult] = ()) -> tuple[Path, dict[str, Path]]:
    """Write the comparison's page (compare.html here unless a place is given) and what else was asked for.

    UsageError for a form that several runs have not, and when a place cannot be written.
    """
    from trtspec.reports.history import history_json
    from trtspec.reports.history_page import render_history_html, render_history_markdown

    lacking = [form for form in _OF_ONE_RUN if getattr(places, form) is not None]
    if lacking:
        raise UsageError(f"--{lacking[0]} is of one run", fix="trtspec report RUN, once for each run")
    page = places.html or Path("compare.html")
    texts: dict[str, Callable[[], str]] = {
        "markdown": lambda: render_history_markdown(history, gates),
        "json": lambda: json_text(history_json(history)),
    }
    with _writing(page, "--html PATH"):
        write_text(page, render_history_html(history))
    return page, _write_texts(texts, places)


_OF_ONE_RUN = ("csv", "junit", "parquet", "aiperf")


def _write_texts(texts: Mapping[str, Callable[[], str]], places: Places) -> dict[str, Path]:
    """Write those whose place was given."""
    written = {}
    for form, text in texts.items():
        place: Path | None = getattr(places, form)
        if place is not None:
            with _writing(place, f"--{form} FILE"):
                write_text(place, text())
            written[form] = place
    return written


@contextmanager
def _writing(place: Path, fix: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = f"cannot be written: {error.strerror or error}"
        raise UsageError(reason, where=str(error.filename or place), fix=fix) from None


def _parquet(data: ReportData, folder: Path) -> None:
    from trtspec.reports.parquet import parquet_files

    for name, content in parquet_files(data):
        write_bytes(folder / name, content)


def _aiperf(data: ReportData, folder: Path) -> None:
    from trtspec.reports.aiperf import profiled_runs, record_lines
    from trtspec.reports.aiperf_summary import profile_summary

    for run in profiled_runs(data):
        place = folder / run.folder
        write_pieces(
            place / "profile_export.jsonl", (line.encode("utf-8", "backslashreplace") for line in record_lines(run))
        )
        write_json(place / "profile_export_aiperf.json", profile_summary(run))
