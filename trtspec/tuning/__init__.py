"""Finding the draft length for each load: candidates race on fresh prompts, and the winners are measured again."""

from trtspec.tuning.options import TuneOptions, tune_options
from trtspec.tuning.run import FILE_NAME, TuneResult, resume, tune
from trtspec.tuning.status import TuneListener, TuneStatus

__all__ = [
    "FILE_NAME",
    "TuneListener",
    "TuneOptions",
    "TuneResult",
    "TuneStatus",
    "resume",
    "tune",
    "tune_options",
]
