"""Starting one server, watching it and stopping it: only ever what was started here."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from trtspec.errors import ServerError, ServerNotReady
from trtspec.progress import Reporter, SilentReporter
from trtspec.serving.board import Board
from trtspec.serving.certificates import tls_address
from trtspec.serving.control import ControlFailed, ModelControl
from trtspec.serving.diagnosis import diagnose, is_hopeless
from trtspec.serving.draining import drained
from trtspec.serving.health import answers, first_unready, process_lives, stub_processes
from trtspec.serving.installation import prepare_backends
from trtspec.serving.plain_paths import make_link
from trtspec.serving.plan import LaunchPlan
from trtspec.serving.ports import Ports, check_free, connect_host, is_free
from trtspec.serving.process import SupervisedServer
from trtspec.serving.revival import Revivals, load_again
from trtspec.serving.security import check_tls
from trtspec.serving.served import frontend_parameters
from trtspec.serving.warmup import WarmupFailed, warm_up, warmup_requests
from trtspec.spec.names import FRONTEND_MODEL
from trtspec.units import bytes_text, duration_text

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["RunningServer", "start_server"]

_POLL = 0.1
_METRICS_WAIT = 5.0
_END_WAIT = 10.0  # for a server whose ports are closed to be gone
_ENDED = (0, -signal.SIGTERM, -signal.SIGINT)  # exit codes of a server that somebody ended
# to unload the models of a server without requests; it would wait longer for streams that clients keep open
_UNLOAD_WAIT = 10.0
# Triton gives each Python model instance a region of 1 MiB and lets it grow when tensors need it.
_SHM_PER_MODEL = 8 << 20


class RunningServer:
    """A server that was started here and is ready; leaving the `with` block stops it.

    It ends with this process too, also when this process is killed.
    """

    def __init__(
        self, plan: LaunchPlan, models: tuple[str, ...], process: SupervisedServer, ready_timeout: float = 300.0
    ) -> None:
        self.plan = plan
        self.ready_timeout = ready_timeout
        self.models = models
        self._process = process
        self._stubs: dict[int, str] = {}
        self._drained = False
        self._revivals = Revivals()

    @property
    def host(self) -> str:
        """The address that clients on this machine use."""
        return connect_host(self.plan.host)

    @property
    def control(self) -> ModelControl:
        """Its model repository API."""
        return ModelControl(self.plan.address("http"), self.ports.http, self.plan.admin)

    @property
    def ports(self) -> Ports:
        """Where it listens."""
        return self.plan.ports

    @property
    def pid(self) -> int:
        """Process id of tritonserver."""
        return self._process.pid

    @property
    def log(self) -> Path:
        """The server's log."""
        return self.plan.log

    @property
    def http_url(self) -> str:
        """`host:port` for HTTP."""
        return self._url("http", self.ports.http)

    @property
    def grpc_url(self) -> str:
        """`host:port` for gRPC; with TLS as `trtspec.wire.Connection` takes it."""
        plain = self._url("grpc", self.ports.grpc)
        return tls_address(plain, self.plan.tls.certificate) if self.plan.tls else plain

    @property
    def metrics_url(self) -> str:
        """`host:port` for Prometheus."""
        return self._url("metrics", self.ports.metrics)

    def _url(self, protocol: str, port: int) -> str:
        return _join(connect_host(self.plan.address(protocol)), port)

    def alive(self) -> bool:
        """True while the server, its models and their processes are well."""
        return self.problem() is None

    def problem(self) -> str | None:
        """What is wrong with the server, in one line; None when all is well."""
        unready = None if self.fatal() else first_unready(self.plan.address("http"), self.ports.http, self.models)
        if fatal := self.fatal():
            return fatal
        if unready is None:
            return None
        return "the server does not answer" if unready == "server" else f"model {unready} is not ready"

    def fatal(self) -> str | None:
        """Why the server will never answer again: it ended, or a model's Python process died; None when it may.

        Triton goes on without a dead model process and fails every request of that model.
        """
        dead = self.dead_models()
        if self.exited():
            return f"the server ended ({_exit_text(self._process.exit_code)})"
        return f"the process of model {', '.join(dead)} died" if dead else None

    def exited(self) -> bool:
        """True when tritonserver is gone."""
        return not self._process.running()

    def dead_models(self) -> list[str]:
        """Models whose Python process died since the start."""
        alive = stub_processes(self.pid)
        return sorted({model for pid, model in self._stubs.items() if pid not in alive})

    @property
    def restarts(self) -> dict[str, int]:
        """What died and was started again, and how often: models, or `server` for all of it."""
        return dict(self._revivals.done)

    def revive(self, say: Callable[[str], None]) -> bool:
        """Start again what died; False when it was ended from outside, died too often, or cannot be started.

        A leaf is loaded again. Requests that the frontend had would never be answered, so then the server is started
        anew, as when it died itself; ServerNotReady when that fails. Needs the key of a plan made for it. What is said
        goes into the server's log as well.
        """
        if self.plan.admin is None:
            return False
        dead = self.dead_models()
        if dead and FRONTEND_MODEL not in dead and not self._ends():
            if all(self._load_again(model, say) for model in dead):
                return True
            if not self._ends():
                return False
        if self.exited() and self._process.exit_code in _ENDED:
            return False
        fatal = self.fatal()
        return fatal is not None and self._start_again(fatal, say)

    def _ends(self) -> bool:
        """True when the server has ended, or does so now: it was told to, or a dead process held one of its locks."""
        if not answers(self.plan.address("http"), self.ports.http, "/v2/health/live", timeout=1.0):
            deadline = time.monotonic() + _END_WAIT
            while not self.exited() and time.monotonic() < deadline:
                time.sleep(_POLL)
        return self.exited()

    def _load_again(self, model: str, say: Callable[[str], None]) -> bool:
        if not self._revivals.begin(model, f"the process of model {model} died", lambda line: self._tell(say, line)):
            return False
        try:
            load_again(self.control, model)
        except ControlFailed as error:
            self._tell(say, f"model {model} cannot be loaded again: {error}")
            return False
        others = {pid: name for pid, name in self._stubs.items() if name != model}
        self._stubs = others | {pid: name for pid, name in stub_processes(self.pid).items() if name == model}
        self._tell(say, f"{model} runs again")
        return True

    def _start_again(self, what: str, say: Callable[[str], None]) -> bool:
        if not self._revivals.begin("server", what, lambda line: self._tell(say, line)):
            return False
        self.stop(now=True)
        self._process = SupervisedServer(self.plan)
        self.await_ready(self.ready_timeout)
        self._tell(say, "the server runs again")
        return True

    def _tell(self, say: Callable[[str], None], line: str) -> None:
        """Say it, and add it to the log, which the server only appends to."""
        say(line)
        with contextlib.suppress(OSError), self.log.open("a", encoding="utf-8") as log:
            log.write(f"trtspec: {line.replace('[yellow]warning:[/] ', '')}\n")

    def stop(self, *, now: bool = False) -> None:
        """End the server and wait until its ports are free; does nothing when it has ended before.

        Requests in flight get the server's exit timeout to finish, which makes the end take some seconds; `now` kills.
        """
        if now:
            self._process.kill()
        else:
            self._process.stop(_UNLOAD_WAIT if self._drained else None)
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and not self._ports_free():
            time.sleep(_POLL)

    def _ports_free(self) -> bool:
        return all(is_free(self.plan.address(protocol), port) for protocol, port in self.ports.items())

    def drain(self, limit: float, tell: Callable[[str], None]) -> bool:
        """Take no new requests and wait until those in work have ended; False when `limit` seconds were not enough.

        Needs the key of a plan made for it; without one nothing is waited for here, and `stop` gives the server's own
        exit timeout.
        """
        if self.plan.admin is None or FRONTEND_MODEL not in self.models or self.exited():
            return True
        try:
            self.control.unload(FRONTEND_MODEL)
        except ControlFailed as error:
            tell(f"cannot stop new requests: {error}")
            return True
        host, port = self.plan.address("metrics"), self.ports.metrics
        self._drained = drained(self.control, host, port, limit, lambda: not process_lives(self.pid))
        return self._drained

    def warm_up(self, timeout: float) -> list[float]:
        """Send the first requests; the seconds that each took. ServerNotReady when one is not answered."""
        requests = warmup_requests(self.models, frontend_parameters(self.plan.repository))
        try:
            return warm_up(self.plan.address("http"), self.ports.http, requests, timeout=timeout)
        except WarmupFailed as error:
            raise self.failure(f"every model is ready, but a first request failed: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def await_ready(self, timeout: float, board: Board | None = None) -> None:
        """Return when the server and its models are ready; ServerNotReady at once when it ended or cannot succeed."""
        deadline = time.monotonic() + timeout
        board = board or Board(SilentReporter(), ())
        with board:
            if self.plan.load_order:
                self._load_in_order(deadline, timeout, board)
            self._await_models(deadline, timeout, board)
        self._await_metrics(min(_METRICS_WAIT, timeout))
        self._stubs = stub_processes(self.pid)

    def _load_in_order(self, deadline: float, timeout: float, board: Board) -> None:
        """Load one model after the other once the server listens."""
        while not answers(self.plan.address("http"), self.ports.http, "/v2/health/live", timeout=1.0):
            self._check_starting(deadline, timeout, "the server")
            time.sleep(_POLL)
        for model in self.plan.load_order:
            board.tell(model, "loading")
            try:
                self.control.load(model, timeout=deadline - time.monotonic())
            except ControlFailed as error:
                self._check_starting(deadline, timeout, f"model {model}")
                raise self.failure(f"model {model} cannot be loaded: {error}") from None

    def _await_models(self, deadline: float, timeout: float, board: Board) -> None:
        missing: str | None = "server"
        while missing is not None:
            self._check_starting(deadline, timeout, "the server" if missing == "server" else f"model {missing}")
            missing = first_unready(self.plan.address("http"), self.ports.http, self.models, timeout=1.0)
            board.show(self._ready)
            if missing is not None and is_hopeless(self.log):
                raise self.failure("a model's process cannot start")
            time.sleep(_POLL if missing else 0)

    def _ready(self, model: str) -> bool:
        return answers(self.plan.address("http"), self.ports.http, f"/v2/models/{model}/ready", timeout=1.0)

    def _check_starting(self, deadline: float, timeout: float, waiting_for: str) -> None:
        """ServerNotReady when the server ended or the time is over."""
        if self.exited():
            raise self.failure("the server ended while starting")
        if time.monotonic() >= deadline:
            raise self.failure(f"{waiting_for} was not ready after {duration_text(timeout)}")

    def _await_metrics(self, timeout: float) -> None:
        """Triton starts the metrics service last, and goes on without it when its port was taken meanwhile."""
        deadline = time.monotonic() + timeout
        while not answers(self.plan.address("metrics"), self.ports.metrics, "/metrics"):
            if time.monotonic() > deadline:
                raise self.failure(f"nothing answers on the metrics port {self.ports.metrics}")
            time.sleep(_POLL)

    def failure(self, message: str) -> ServerNotReady:
        """Kill the server; the error that tells `message`, the end of the log and a likely cause."""
        exit_code = self._process.exit_code
        self._process.kill()
        found = diagnose(self.log, exit_code)
        return ServerNotReady(
            f"{message} (log: {self.log})",
            log_tail=found.tail,
            cause=found.cause,
            fix=found.fix or (_RAN if self._stubs else _STARTING),
        )


_STARTING = "look at the log; a slow machine may need a larger serving.ready_timeout"
_RAN = "look at the log, and whether memory ran out; then start it again"


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _exit_text(code: int | None) -> str:
    if code is None:
        return "killed"
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def start_server(
    plan: LaunchPlan, *, ready_timeout: float, reporter: Reporter | None = None, show_models: bool = False
) -> RunningServer:
    """Start the server and return when it and all its models are ready.

    PortInUse before anything is started, ServerNotReady with the end of the log and a likely cause when it fails;
    then, and on any other exception, nothing is left running. `show_models`: tell of each model by itself.
    """
    models = _models(plan.repository)
    if plan.way != "docker":
        _check_shared_memory(len(models))
    check_free(plan.address, plan.ports)
    if plan.tls is not None:
        check_tls(plan.tls)
    if plan.installation is not None:
        prepare_backends(plan.installation)
    if plan.link is not None:
        make_link(plan.link, plan.repository)
    reporter = reporter or SilentReporter()
    with ExitStack() as stack:
        if not show_models:
            stack.enter_context(reporter.task(f"starting Triton on {plan.repository.name}"))
        board = Board(reporter, models) if show_models else None
        server = RunningServer(plan, models, SupervisedServer(plan), ready_timeout)
        try:
            server.await_ready(ready_timeout, board)
        except BaseException:
            server.stop(now=True)
            raise
    return server


def _models(repository: Path) -> tuple[str, ...]:
    found = sorted(path.parent.name for path in repository.glob("*/config.pbtxt"))
    if not found:
        raise ServerError(f"{repository} holds no model", fix="trtspec repo")
    return tuple(found)


def _check_shared_memory(models: int) -> None:
    room, needed = _shared_memory_room(), models * _SHM_PER_MODEL
    if room is not None and room < needed:
        raise ServerError(
            f"/dev/shm has {bytes_text(room)} free, {models} model processes need {bytes_text(needed)}",  # noqa: S108
            fix="give it more room (docker run --shm-size=1g), or remove what fills it",
        )


def _shared_memory_room() -> int | None:
    try:
        state = os.statvfs("/dev/shm")  # noqa: S108  # Triton's choice, not ours
    except OSError:
        return None
    return state.f_bavail * state.f_frsize
