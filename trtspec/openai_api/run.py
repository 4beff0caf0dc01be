"""Starting and ending the endpoint's process."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import trtspec
from trtspec import supervisor
from trtspec.errors import EnvironmentMissing, PortInUse, ServerNotReady
from trtspec.openai_api.settings import Settings
from trtspec.serving.diagnosis import log_tail
from trtspec.serving.ports import connect_host, is_free, port_holder
from trtspec.serving.revival import Revivals

__all__ = ["OpenaiServer", "check_openai", "openai_server"]

_PACKAGES = ("fastapi", "uvicorn")
_POLL = 0.1
_REVIVAL_WAIT = 60.0
_EXIT_SLACK = 3  # seconds beyond the requests' own


def check_openai(host: str, port: int) -> None:
    """Return when the endpoint could be started; EnvironmentMissing or PortInUse when not."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        message = f"the OpenAI-compatible endpoint needs {' and '.join(missing)}"
        raise EnvironmentMissing(message, fix="pip install 'trtspec[openai]'")
    if not is_free(host, port):
        fix = f"stop it, or choose another port: --openai-port {port + 10}, or serving.openai_port"
        raise PortInUse(port, holder=port_holder(port), fix=fix)


class OpenaiServer:
    """The endpoint's process, below a supervisor that ends it with this one."""

    def __init__(self, settings: Settings, log: Path) -> None:
        self.settings, self.log = settings, log
        self._revivals = Revivals()
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
        self._process = self._spawn()

    def _spawn(self) -> subprocess.Popen[bytes]:
        settings = self.settings
        options = {
            "argv": [sys.executable, "-m", "trtspec.openai_api", settings.to_text()],
            "exit_wait": settings.exit_wait + _EXIT_SLACK,
        }
        with self.log.open("ab") as stream:
            # `-m` imports from the current folder first: this one holds trtspec, and nothing of the user's
            folder = Path(trtspec.__file__).parent.parent
            process = supervisor.spawn(options, log=stream, cwd=folder, env={})
        assert process.stdout is not None
        process.stdout.readline()  # its pid, or why there is none: then the supervisor ends
        return process

    @property
    def url(self) -> str:
        """What OpenAI's client takes as `base_url`."""
        host = connect_host(self.settings.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.settings.port}/v1"

    def fatal(self) -> str | None:
        """Why it will never answer again; None when it may."""
        return "the OpenAI-compatible endpoint ended" if self.exited() else None

    @property
    def restarts(self) -> int:
        """How often it ended by itself and was started again."""
        return self._revivals.done.total()

    def revive(self, say: Callable[[str], None]) -> bool:
        """Start it again after it ended by itself; False when it ends at once, or too often."""
        if not self._revivals.begin("openai", "the OpenAI-compatible endpoint ended", say):
            return False
        self.stop()
        self._process = self._spawn()
        try:
            self.await_live(_REVIVAL_WAIT)
        except ServerNotReady as error:
            say(error.message)
            return False
        say("the OpenAI-compatible endpoint runs again")
        return True

    def problem(self) -> str | None:
        """What is wrong with it; None when all is well."""
        return None if self._answers() else "the OpenAI-compatible endpoint does not answer"

    def exited(self) -> bool:
        """True when the process is gone."""
        assert self._process.stdout is not None
        if self._process.poll() is not None:
            return True
        # the supervisor writes once more, when the process has ended
        return bool(select.select([self._process.stdout], [], [], 0)[0])

    def await_live(self, timeout: float) -> None:
        """Return when it answers; ServerNotReady with the end of its log when it does not."""
        deadline = time.monotonic() + timeout
        while not self._answers():
            if self.exited() or time.monotonic() > deadline:
                raise self.failure("the OpenAI-compatible endpoint did not start")
            time.sleep(_POLL)

    def failure(self, message: str) -> ServerNotReady:
        """The error that tells `message` and the end of the log; leaving the block ends the process."""
        tail = log_tail(self.log)
        return ServerNotReady(f"{message} (log: {self.log})", log_tail=tail, fix="look at the log")

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(connect_host(self.settings.host), self.settings.port, timeout=2)
        try:
            connection.request("GET", "/health/live")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def stop(self) -> None:
        """Let requests in flight finish within `exit_wait` seconds, then end it; an interruption ends it at once.

        Does nothing when it has ended.
        """
        try:
            self._order(b"t")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(self.settings.exit_wait + 2 * _EXIT_SLACK)
        finally:
            self._order(b"k")
            self._process.wait(10)
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()

    def _order(self, word: bytes) -> None:
        assert self._process.stdin is not None
        if self._process.poll() is None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(word)


@contextmanager
def openai_server(settings: Settings, *, log: Path, ready_timeout: float = 60.0) -> Iterator[OpenaiServer]:
    """The endpoint, answering, for the length of the block; errors as `check_openai` and `await_live` raise them.

    The environment variable TRTSPEC_API_KEY, where it is set, is the key that clients must send.
    """
    check_openai(settings.host, settings.port)
    server = OpenaiServer(settings, log)
    try:
        server.await_live(ready_timeout)
        yield server
    finally:
        server.stop()
