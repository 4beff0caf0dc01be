"""Reports of runs, all recomputed from the raw files: page, tables, summary for a pull request, exports, gates.

`open_run` finds the raw file, `load_report` computes, `write_report` and `write_exports` write, `check_gates` judges;
`load_history` and `write_history` do the same for several runs.
"""

from trtspec.reports.data import ReportData, load_report, report_data
from trtspec.reports.gates import Gate, GateResult, check_gates, parse_gates, require_gates
from trtspec.reports.history import History, history_json, load_history
from trtspec.reports.source import RunSource, newest_anywhere, newest_run, open_run
from trtspec.reports.write import Places, ReportFiles, write_exports, write_history, write_report

__all__ = [
    "Gate",
    "GateResult",
    "History",
    "Places",
    "ReportData",
    "ReportFiles",
    "RunSource",
    "check_gates",
    "history_json",
    "load_history",
    "load_report",
    "newest_anywhere",
    "newest_run",
    "open_run",
    "parse_gates",
    "report_data",
    "require_gates",
    "write_exports",
    "write_history",
    "write_report",
]
