"""One program of a build: in its own session below a supervisor, its output in a log, ended with us."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from trtspec import supervisor
from trtspec.errors import BuildError
from trtspec.units import plain_text

__all__ = ["Cancelled", "Job", "Outcome", "last_line", "run_job"]

# Between SIGTERM and SIGKILL: enough for Python to unwind, short enough for a person who pressed Ctrl-C.
EXIT_WAIT = 5.0
_POLL = 0.2
_CLEAN_UP_WAIT = 60.0
_TAIL = 4096  # bytes at the end of a log that its last line is looked for in
_SHOWN = 400  # characters of it


class Cancelled(BaseException):
    """The job was ended because the build as a whole ends; like KeyboardInterrupt no failure."""


@dataclass(frozen=True)
class Job:
    """A program to run: `after` is a command that cleans up when it had to be ended (a container that would go on)."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    log: Path
    after: Sequence[str] = ()


@dataclass(frozen=True)
class Outcome:
    """How a program ended: exit code (negative: the signal; None: nobody knows), seconds, largest resident size."""

    exit_code: int | None
    seconds: float
    peak_rss: int | None


@dataclass
class _Report:
    """What the supervisor has said so far."""

    text: str = ""
    words: dict[str, str] = field(default_factory=dict)

    def add(self, data: bytes) -> None:
        self.text += data.decode(errors="replace")
        *lines, self.text = self.text.split("\n")
        for line in lines:
            word, _, value = line.partition(" ")
            self.words[word] = value

    def number(self, word: str) -> int | None:
        value = self.words.get(word)
        return int(value) if value is not None else None


def run_job(job: Job, stop: Event, tell: Callable[[str], None], keep: Sequence[int] = ()) -> Outcome:
    """Run a program to its end, its output appended to the log; `tell` gets the log's latest line now and then.

    `keep` are file descriptors (a lock) that stay open until the program and all that it started are gone, even when
    this process is killed. Cancelled once `stop` is set; BuildError when the program cannot be started.
    """
    started = time.monotonic()
    with job.log.open("ab") as log:
        process = _start(job, log.fileno(), keep)
    report = _Report()
    try:
        _follow(process, report, job.log, stop, tell)
    finally:
        _close(process)
        if "pid" in report.words and "exit" not in report.words:
            _bury(job, int(report.words["pid"]))
    if "error" in report.words:
        fix = "see that it is there and may be run; trtspec doctor shows what is installed"
        raise BuildError(f"cannot be started: {report.words['error']}", where=job.argv[0], fix=fix)
    if stop.is_set():
        raise Cancelled
    return Outcome(report.number("exit"), time.monotonic() - started, report.number("rss"))


def _start(job: Job, log: int, keep: Sequence[int]) -> subprocess.Popen[bytes]:
    options = {
        "argv": list(job.argv),
        "exit_wait": EXIT_WAIT,
        "after": list(job.after),
        "measure": True,
    }
    return supervisor.spawn(options, log=log, cwd=job.cwd, env=job.env, keep=keep)


def _follow(
    process: subprocess.Popen[bytes], report: _Report, log: Path, stop: Event, tell: Callable[[str], None]
) -> None:
    """Return when the supervisor has closed its side, which it does when the program and its children are gone."""
    assert process.stdout is not None
    ordered = False
    while True:
        if stop.is_set() and not ordered:
            ordered = True
            _order(process, b"t")
        if select.select([process.stdout], [], [], _POLL)[0]:
            data = process.stdout.read(65536)
            if not data:
                return
            report.add(data)
        tell(last_line(log))


def _order(process: subprocess.Popen[bytes], word: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.write(word)


def _close(process: subprocess.Popen[bytes]) -> None:
    """Wait for the supervisor; when we leave for another reason than its end, the closed stdin tells it to end all."""
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        with contextlib.suppress(OSError):
            stream.close()
    try:
        process.wait(EXIT_WAIT + 10)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _bury(job: Job, group: int) -> None:
    """End what a supervisor that was killed itself could not: the program's process group, and its container."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    if job.after:
        with contextlib.suppress(OSError, subprocess.SubprocessError), job.log.open("ab") as log:
            subprocess.run(
                job.after, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=_CLEAN_UP_WAIT, check=False
            )


def last_line(log: Path) -> str:
    """The last line of a log that says something, without control characters, its end where it is very long.

    Of a line that was drawn over (a progress bar) its latest state.
    """
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - _TAIL))
            text = stream.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    parts = (plain_text(part).strip() for line in reversed(text.split("\n")) for part in reversed(line.split("\r")))
    return next((part for part in parts if part), "")[-_SHOWN:]
