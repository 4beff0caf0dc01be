"""Running one program: its output, its end, and ending it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from trtspec.building.tensorrt.process import Cancelled, Job, last_line, run_job
from trtspec.errors import BuildError


def job(folder: Path, argv: Sequence[str], after: Sequence[str] = (), **env: str) -> Job:
    return Job(argv, env, folder, folder / "build.log", after)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_output_exit_code_directory_and_environment(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd(), os.environ['NAME']); print('to stderr', file=sys.stderr); sys.exit(3)"
    (tmp_path / "build.log").write_text("$ before\n")
    outcome = run_job(job(tmp_path, python(code), NAME="value"), threading.Event(), lambda _line: None)
    assert outcome.exit_code == 3
    assert outcome.seconds > 0
    assert outcome.peak_rss is not None
    assert outcome.peak_rss > 1 << 20
    assert sorted((tmp_path / "build.log").read_text().splitlines()) == sorted(
        ["$ before", f"{tmp_path} value", "to stderr"]
    )


def test_a_signal_is_a_negative_code(tmp_path: Path) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert run_job(job(tmp_path, python(code)), threading.Event(), lambda _line: None).exit_code == -9


def test_the_latest_line_is_told_while_it_runs(tmp_path: Path) -> None:
    seen: list[str] = []
    code = "import time; print('first', flush=True); time.sleep(0.7); print('second', flush=True)"
    run_job(job(tmp_path, python(code)), threading.Event(), seen.append)
    assert "first" in seen
    assert seen[-1] == "second"


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="cannot be started") as caught:
        run_job(job(tmp_path, ["/nowhere/trtllm-build"]), threading.Event(), lambda _line: None)
    assert caught.value.where == "/nowhere/trtllm-build"


_FAMILY = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(600)
"""


def test_stopping_ends_children_too_and_cleans_up(tmp_path: Path) -> None:
    stop, seen = threading.Event(), []

    def tell(line: str) -> None:
        if line.isdigit():
            seen.append(int(line))
            stop.set()

    after = python(f"open({str(tmp_path / 'cleaned')!r}, 'w').close()")
    with pytest.raises(Cancelled):
        run_job(job(tmp_path, python(_FAMILY), after), stop, tell)
    assert not psutil.pid_exists(seen[0])
    assert (tmp_path / "cleaned").exists()


def test_no_clean_up_after_an_ordinary_end(tmp_path: Path) -> None:
    after = python(f"open({str(tmp_path / 'cleaned')!r}, 'w').close()")
    run_job(job(tmp_path, python("pass"), after), threading.Event(), lambda _line: None)
    assert not (tmp_path / "cleaned").exists()


def test_a_kept_descriptor_is_open_until_the_program_is_gone(tmp_path: Path) -> None:
    import fcntl

    path = tmp_path / "lock"
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    thread = threading.Thread(
        target=run_job,
        args=(
            job(tmp_path, python("import time; time.sleep(1)")),
            threading.Event(),
            lambda _line: None,
            (descriptor,),
        ),
    )
    thread.start()
    time.sleep(0.4)
    os.close(descriptor)  # as when the build is killed
    other = os.open(path, os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    thread.join()
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("one\ntwo\n", "two"),
        ("one\n\n  \n", "one"),
        ("bar 1%\rbar 2%\r", "bar 2%"),
        ("a" * 9000, "a" * 400),
        ("done\n\x1b[2K\x1b[31m\n", "done"),
        ("\x1b[1mbold\x07", "bold"),
    ],
)
def test_last_line(tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "log").write_text(text)
    assert last_line(tmp_path / "log") == line
    assert last_line(tmp_path / "missing") == ""


def test_when_the_supervisor_is_killed_nothing_goes_on(tmp_path: Path) -> None:
    """The kernel kills the program with it, but not what the program started, nor a container."""
    code = (
        "import os, signal, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(120)'])\n"
        "print(child.pid, flush=True)\n"
        "os.kill(os.getppid(), signal.SIGKILL)\n"
        "time.sleep(120)\n"
    )
    after = python(f"open({str(tmp_path / 'cleaned')!r}, 'w').close()")
    outcome = run_job(job(tmp_path, python(code), after), threading.Event(), lambda _line: None)
    assert outcome.exit_code is None
    assert (tmp_path / "cleaned").exists()
    child = int((tmp_path / "build.log").read_text().split()[0])
    deadline = time.monotonic() + 10
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.02)
