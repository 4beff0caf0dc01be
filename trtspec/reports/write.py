"""The files of a report: one HTML page and the CSV tables, each written whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trtspec.errors import UsageError
from trtspec.files import write_text
from trtspec.reports.csv_files import csv_files
from trtspec.reports.data import ReportData
from trtspec.reports.html import render_html
from trtspec.reports.source import RunSource

__all__ = ["ReportFiles", "write_report"]


@dataclass(frozen=True)
class ReportFiles:
    """Where a report lies."""

    html: Path
    csv: tuple[Path, ...]


def write_report(
    source: RunSource, data: ReportData, *, html: Path | None = None, csv: Path | None = None
) -> ReportFiles:
    """Write the page to `html` and the tables into the folder `csv`, by default into the run's folder.

    UsageError when a place cannot be written.
    """
    page, folder = html or source.html, csv or source.csv
    tables = {folder / name: text for name, text in csv_files(data).items()}
    try:
        write_text(page, render_html(data))
        for path, text in tables.items():
            write_text(path, text)
    except OSError as error:
        reason = f"cannot be written: {error.strerror or error}"
        raise UsageError(reason, where=str(error.filename or page), fix="--html PATH and --csv FOLDER") from None
    return ReportFiles(page, tuple(tables))
