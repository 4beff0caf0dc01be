"""The process of one server, below a supervisor that ends it with us."""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Iterator
from pathlib import Path

from trtspec import supervisor
from trtspec.errors import ServerNotReady
from trtspec.serving.diagnosis import log_tail
from trtspec.serving.health import process_lives
from trtspec.serving.plan import LaunchPlan

__all__ = ["SupervisedServer"]

# Beyond the server's own exit timeout: unloading the models takes up to two seconds, more on a busy machine.
_EXIT_SLACK = 5.0
# A server that is gone is reported by its supervisor within a moment.
_REPORT_WAIT = 3.0
_POLL = 0.05
# a container is removed by a command of its own
_KILL_WAIT = 30.0


class SupervisedServer:
    """The supervisor process and, below it, the server."""

    def __init__(self, plan: LaunchPlan) -> None:
        self._patience = plan.exit_timeout + _EXIT_SLACK
        options = {
            "argv": plan.argv,
            "exit_wait": self._patience,
            "shm_prefix": plan.shm_prefix,
            "after": plan.after,
        }
        plan.cwd.mkdir(parents=True, exist_ok=True)
        with _new_log(plan.log) as log:
            self._process = supervisor.spawn(options, log=log, cwd=plan.cwd, env=plan.env)
        self.exit_code: int | None = None
        self.pid = self._read_pid(plan)

    def _read_pid(self, plan: LaunchPlan) -> int:
        assert self._process.stdout is not None
        word, _, rest = self._process.stdout.readline().decode().strip().partition(" ")
        if word != "pid":
            self._reap()
            message = f"the server could not be started: {rest or 'no answer'} (log: {plan.log})"
            raise ServerNotReady(message, log_tail=log_tail(plan.log))
        return int(rest)

    def running(self) -> bool:
        """False once the server has ended; `exit_code` tells how (negative: the signal; None: nobody knows)."""
        if self.exit_code is None and self._process.returncode is None:
            assert self._process.stdout is not None
            patience = 0 if process_lives(self.pid) else _REPORT_WAIT
            if not select.select([self._process.stdout], [], [], patience)[0]:
                return True
            self._reap()
        return False

    def _reap(self) -> None:
        """Read how the server ended and wait for the supervisor, which has nothing left to do."""
        stdout, stdin = self._process.stdout, self._process.stdin
        assert stdout is not None
        assert stdin is not None
        if not stdout.closed:
            word, _, code = stdout.read().decode().strip().partition(" ")
            self.exit_code = int(code) if word == "exit" else None
            stdout.close()
        with contextlib.suppress(OSError):
            stdin.close()
        self._process.wait()

    def stop(self, patience: float | None = None) -> None:
        """SIGTERM, wait `patience` seconds (else the server's exit timeout), SIGKILL.

        An interruption (a second Ctrl-C) kills at once.
        """
        if not self.running():
            return
        try:
            self._order(b"t")
            self._wait(self._patience + 5 if patience is None else patience)
        except BaseException:
            self.kill()
            raise
        self.kill()

    def kill(self) -> None:
        """SIGKILL to the server and its model processes, at once."""
        if self.running():
            self._order(b"k")
            self._wait(_KILL_WAIT)
        if self.running():
            self._process.kill()
            self._reap()

    def _order(self, word: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(word)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self.running() and time.monotonic() < deadline:
            time.sleep(_POLL)


@contextlib.contextmanager
def _new_log(path: Path) -> Iterator[int]:
    """A file descriptor of a new, empty log; the previous one is kept beside it as `<name>.1`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        path.replace(path.with_name(f"{path.name}.1"))
    with path.open("ab") as stream:  # so that nothing is written over what somebody else has added
        yield stream.fileno()
