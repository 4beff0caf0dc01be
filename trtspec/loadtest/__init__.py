"""Paired, interleaved load tests of both arms: sending, recording, and what the records say.

`run` sends; `read_run` and `summarise_run` compute everything from what a run (or a hand-made file) holds.
"""

from trtspec.loadtest.options import RunOptions, run_options
from trtspec.loadtest.preview import preview
from trtspec.loadtest.run_folder import RunFolder, latest_run, read_run, summarise_run
from trtspec.loadtest.runner import RunResult, resume, run
from trtspec.loadtest.status import Listener, Status

__all__ = [
    "Listener",
    "RunFolder",
    "RunOptions",
    "RunResult",
    "Status",
    "latest_run",
    "preview",
    "read_run",
    "resume",
    "run",
    "run_options",
    "summarise_run",
]
