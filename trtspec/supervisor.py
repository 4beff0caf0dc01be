"""Runs one program and ends it when told to, or when the process that started it is gone, however that ended.

Run as a script with nothing but the standard library, so that it starts in milliseconds:
``python -I -S supervisor.py '{"argv": [...], "parent": PID, "exit_wait": SECONDS}'``

stdin   a byte ``t`` or end of file: end the program (SIGTERM, after `exit_wait` seconds SIGKILL); ``k``: SIGKILL now
stdout  ``pid N`` once it runs, ``exit CODE`` when it has ended (negative: the signal), ``error TEXT`` else
stderr  the program's log

Further options: ``shm_prefix`` (regions in /dev/shm to remove at the end), ``after`` (argv of a clean-up command that
runs when the program had to be ended), ``measure`` (a line ``rss BYTES``, the largest resident size among its
processes, before the exit line).

The program gets a session of its own and SIGKILL from the kernel should this process be killed. A supervisor is
needed because the kernel's parent-death signal belongs to a thread, not to a process, and does not reach grandchildren.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_TICK = 0.2


def spawn(
    options: Mapping[str, Any], *, log: int | IO[bytes], cwd: Path, env: Mapping[str, str], keep: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """A supervisor for the program in `options`, whose parent is this process; it talks through its pipes, unbuffered.

    `env` is added to this process's environment, the open files `keep` stay open in it.
    """
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, json.dumps({**options, "parent": os.getpid()})],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env={**os.environ, **env},
        cwd=cwd,
        start_new_session=True,
        pass_fds=keep,
        bufsize=0,
    )


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _say(line: str) -> None:
    # whoever listened may be gone
    with contextlib.suppress(OSError):
        os.write(1, f"{line}\n".encode())


def _start(argv: list[str]) -> subprocess.Popen[bytes]:
    supervisor = os.getpid()

    def die_with_supervisor() -> None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(1)

    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=2,
        stderr=2,
        start_new_session=True,
        preexec_fn=die_with_supervisor,  # noqa: PLW1509  # this process has one thread
    )


def _watch(server: subprocess.Popen[bytes], parent: int, exit_wait: float) -> bool:
    """Return when the program has ended: True when it had to."""
    deadline: float | None = None
    killed = False
    inputs = [0]
    while server.poll() is None:
        readable, _, _ = select.select(inputs, [], [], _TICK)
        order = os.read(0, 1) if readable else None
        if order == b"":
            inputs = []
        if order == b"k" or (deadline is not None and time.monotonic() > deadline):
            killed = True
            server.kill()
            server.wait()
        elif deadline is None and (order is not None or os.getppid() != parent or _terminated):
            deadline = time.monotonic() + exit_wait
            server.terminate()
    return killed or deadline is not None


_terminated: list[int] = []


def _remember_signal(number: int, _frame: Any) -> None:
    _terminated.append(number)


def _end_descendants(group: int) -> None:
    """Kill what the program left: its process group, and orphans that became our children."""
    for _ in range(50):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
        children = _children()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        if not children:
            return
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.02)


def _children() -> list[int]:
    own = Path(f"/proc/self/task/{os.getpid()}/children")
    try:
        return [int(child) for child in own.read_text().split()]
    except OSError:
        return []


def _free_shared_memory(prefix: str) -> None:
    """Remove the shared-memory regions that a killed program could not remove itself."""
    for region in Path("/dev/shm").glob(f"{prefix}*"):  # noqa: S108
        with contextlib.suppress(OSError):
            region.unlink()


def _clean_up(argv: list[str]) -> None:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=2, stderr=2, timeout=60, check=False)


def main() -> None:
    """Run the program described by the first argument until it ends."""
    options = json.loads(sys.argv[1])
    signal.signal(signal.SIGTERM, _remember_signal)
    # a function, not SIG_IGN: the program must not inherit it
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, lambda _number, _frame: None)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        server = _start(options["argv"])
    except (OSError, subprocess.SubprocessError) as error:
        _say(f"error {error}")
        sys.exit(1)
    _say(f"pid {server.pid}")
    had_to_end = _watch(server, options["parent"], options["exit_wait"])
    _end_descendants(server.pid)
    if prefix := options.get("shm_prefix"):
        _free_shared_memory(prefix)
    if had_to_end and options.get("after"):
        _clean_up(options["after"])
    if options.get("measure"):
        _say(f"rss {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024}")
    _say(f"exit {server.returncode}")


if __name__ == "__main__":
    main()
