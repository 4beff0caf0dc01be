"""Reports of a run: one HTML page, CSV tables and a terminal view, all recomputed from the raw file.

`open_run` finds the raw file, `load_report` computes, `write_report` and `print_report` show.
"""

from trtspec.reports.data import ReportData, load_report, report_data
from trtspec.reports.source import RunSource, newest_run, open_run
from trtspec.reports.write import ReportFiles, write_report

__all__ = [
    "ReportData",
    "ReportFiles",
    "RunSource",
    "load_report",
    "newest_run",
    "open_run",
    "report_data",
    "write_report",
]
