"""The two servers under test: started here and stopped afterwards, or already running somewhere.

Only one arm is ever under load. Arms that were started here share this machine and, as the baseline's and the target's
engines are placed alike, their GPUs; where these cannot hold both, one server runs at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from trtspec.loadtest.options import RunOptions
from trtspec.loadtest.run_folder import RunFolder
from trtspec.loadtest.telemetry import metrics_address
from trtspec.progress import Reporter
from trtspec.spec import SpecFile
from trtspec.spec.names import ARMS, BASELINE_ARM, Arm
from trtspec.wire import Kind

if TYPE_CHECKING:
    from trtspec.serving import LaunchPlan, RunningServer

__all__ = ["ArmServer", "check_repositories", "open_arms", "placement"]

# Triton's usual ports for requests, beside which it exports its metrics on the usual one
_USUAL_PORTS = {8000, 8001}


def _nothing() -> None:
    """Nothing to do."""


@dataclass
class ArmServer:
    """Where an arm answers and, if that can be known, why it never will again (`fatal`).

    `grpc` is the gRPC address of the same server, `metrics` that of its metrics, `launch_seconds` how long it took to
    become ready; None where that is unknown. `activate` makes sure that it runs.
    """

    url: str
    fatal: Callable[[], str | None] = lambda: None
    kind: Kind = "auto"
    model: str | None = None
    grpc: str | None = None
    metrics: str | None = None
    launch_seconds: float | None = None
    activate: Callable[[], None] = _nothing


def check_repositories(spec_file: SpecFile, options: RunOptions | None = None) -> None:
    """Return when the arms have a model repository that fits the spec; ArtefactMissing tells the command to type."""
    from trtspec.serving import check_repository

    for arm in (BASELINE_ARM,) if options is not None and options.aa else ARMS:
        check_repository(spec_file, arm)


@contextmanager
def open_arms(
    spec_file: SpecFile | None, options: RunOptions, folder: RunFolder, reporter: Reporter
) -> Iterator[dict[Arm, ArmServer]]:
    """Both arms ready to be asked; servers that were started here are stopped on leaving.

    In an A/A run both are one and the same server, the baseline's where it is started here.
    """
    if options.urls or spec_file is None:
        yield {arm: _given(options, arm) for arm in ARMS}
        return
    launcher = _Launcher(spec_file, options, folder, reporter)
    with ExitStack() as stack:
        if options.aa:
            reporter.note("starting the baseline's server, which is both arms")
            yield dict.fromkeys(ARMS, launcher.start(BASELINE_ARM, stack))
        elif options.servers == "one":
            yield _Alternating(launcher).open(stack)
        else:
            reporter.note("starting both arms' servers")
            yield {arm: launcher.start(arm, stack) for arm in ARMS}


def placement(options: RunOptions) -> dict[str, Any]:
    """What is known of the hardware under the arms, for measurement.json; they are never under load at once.

    Arms that have GPUs of their own are not swapped: a server at an address cannot be moved from here.
    """
    hosts = {_host(url) for url in options.urls.values()}
    shared: bool | None
    if not options.urls or options.aa:
        shared, reason = True, "both servers run on this machine" if not options.aa else "both arms are one server"
    elif len(hosts) > 1:
        shared, reason = False, "the servers run on different hosts: their hardware is part of the difference"
    else:
        shared, reason = None, "both servers run on one host; whether they share its GPUs is not known"
    return {
        "shared": shared,
        "reason": reason,
        "under_load_at_once": False,
        "swapped": None if shared else False,
        "servers": options.servers,
    }


def _given(options: RunOptions, arm: Arm) -> ArmServer:
    url = options.urls[arm]
    plain = "://" not in url or url.startswith("grpcs://")
    usual = urlsplit(url if "://" in url else f"grpc://{url}").port in _USUAL_PORTS
    known = usual or urlsplit(url).path.rstrip("/").endswith("/v1")
    return ArmServer(
        url,
        kind=options.kind,
        model=options.models.get(arm),
        grpc=url if plain else None,
        metrics=metrics_address(url) if known else None,
    )


def _host(url: str) -> str | None:
    return urlsplit(url if "://" in url else f"grpc://{url}").hostname


@dataclass(frozen=True)
class _Launcher:
    """Starts the arms' servers on free ports."""

    spec_file: SpecFile
    options: RunOptions
    folder: RunFolder
    reporter: Reporter

    def plan(self, arm: Arm) -> LaunchPlan:
        from trtspec.serving import free_ports, launch_plan

        ports = free_ports(self.spec_file.spec.serving.host)
        return launch_plan(self.spec_file, arm, ports, log=self.folder.server_log(arm))

    def launch(self, plan: LaunchPlan) -> tuple[RunningServer, ArmServer]:
        """The server, ready, and where it answers."""
        from trtspec.serving import start_server

        begin, timeout = time.perf_counter(), self.spec_file.spec.serving.ready_timeout
        server = start_server(plan, ready_timeout=timeout, reporter=self.reporter)
        http = f"http://{server.http_url}"
        return server, ArmServer(
            http if self.options.protocol == "http" else server.grpc_url,
            server.fatal,
            grpc=server.grpc_url,
            metrics=f"http://{server.metrics_url}/metrics",
            launch_seconds=time.perf_counter() - begin,
        )

    def start(self, arm: Arm, servers: ExitStack) -> ArmServer:
        """The arm, whose server runs until `servers` are left."""
        server, described = self.launch(self.plan(arm))
        servers.enter_context(server)
        return described


class _Alternating:
    """Two servers of which one runs at a time, each always at the same addresses."""

    def __init__(self, launcher: _Launcher) -> None:
        self._launcher = launcher
        self._plans = {arm: launcher.plan(arm) for arm in ARMS}
        self._arms: dict[Arm, ArmServer] = {}
        self._running: tuple[Arm, RunningServer] | None = None

    def open(self, servers: ExitStack) -> dict[Arm, ArmServer]:
        """Both arms; `activate` starts the one and stops the other."""
        servers.callback(self._stop)
        for arm in ARMS:
            self._switch(arm)
        return self._arms

    def _switch(self, arm: Arm) -> None:
        if self._running is not None and self._running[0] == arm:
            return
        self._stop()
        self._launcher.reporter.note(f"starting the {arm} arm's server")
        server, described = self._launcher.launch(self._plans[arm])
        self._running = arm, server
        if arm in self._arms:
            self._arms[arm].fatal = server.fatal
            return
        # nothing can be asked of both at once: texts that differ are not examined
        described.grpc, described.activate = None, partial(self._switch, arm)
        self._arms[arm] = described

    def _stop(self) -> None:
        if self._running is not None:
            server, self._running = self._running[1], None
            server.stop()
