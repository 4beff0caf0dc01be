"""`trtspec serve`."""

from __future__ import annotations

import signal
import time
import types
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from trtspec.cli.command import command as make_command
from trtspec.cli.command import examples, spec_argument
from trtspec.cli.numbers import FiniteRange
from trtspec.cli.output import Sink
from trtspec.cli.serve_openai import check_endpoints, openai_ports, start_endpoints
from trtspec.cli.serve_view import show_plans, show_ready
from trtspec.openai_api import OpenaiServer
from trtspec.serving import (
    LaunchPlan,
    Ports,
    RunningServer,
    ServeOptions,
    arm_log,
    check_repository,
    drain_seconds,
    launch_plan,
    ready_timeout,
    second_ports,
    start_server,
    together,
)
from trtspec.serving.launch import MODES
from trtspec.serving.running import Stated, drain_all, stated
from trtspec.serving.watch import watch_all
from trtspec.serving.ways import WAYS
from trtspec.spec import ARMS, Arm, SpecFile, load_spec
from trtspec.spec.names import SPECULATIVE

__all__ = ["command"]

_PORT = click.IntRange(1, 65535)
_WARMUP_SECONDS = 300.0


@make_command(
    epilog=examples(
        "trtspec serve",
        "trtspec serve trtspec.yaml --arm baseline --http-port 8100 --grpc-port 8101 --metrics-port 8102",
        "trtspec serve --both",
        "trtspec serve --openai-port 9000",
        "trtspec serve --with docker --image 26.04 --dry-run",
        "trtspec serve --dry-run --output json",
    )
)
@spec_argument
@click.option("--arm", type=click.Choice(ARMS), default=SPECULATIVE, show_default=True, help="Which repository.")
@click.option("--both", is_flag=True, help="Both arms at once, the baseline on ports 10 higher.")
@click.option("--http-port", type=_PORT, help="Instead of the spec's.")
@click.option("--grpc-port", type=_PORT, help="Instead of the spec's.")
@click.option("--metrics-port", type=_PORT, help="Instead of the spec's.")
@click.option("--metrics-host", metavar="ADDRESS", help="Where metrics listen; default: loopback.")
@click.option("--openai-port", type=_PORT, help="Also an OpenAI-compatible endpoint there (extra trtspec[openai]).")
@click.option("--with", "way", type=click.Choice(WAYS), help="What runs it; default: what the runtime needs.")
@click.option("--image", metavar="IMAGE", help="Docker image or its tag; default: one with the engines' version.")
@click.option(
    "--network", type=click.Choice(["host", "bridge"]), default="host", show_default=True,
    help="Docker's network; bridge publishes the ports.",
)  # fmt: skip
@click.option(
    "--launch", "mode", type=click.Choice(MODES), help="How TensorRT-LLM is started; default: by the engines."
)
@click.option("--world-size", type=click.IntRange(min=1), help="MPI ranks, checked against the engines.")
@click.option("--ready-timeout", type=FiniteRange(min=1), help="Seconds until the server must be ready.")
@click.option("--drain-timeout", type=FiniteRange(min=0), help="Seconds that running requests get at the end.")
@click.option("--no-warmup", is_flag=True, help="Send no first requests.")
@click.option("--dry-run", is_flag=True, help="Show the command line and start nothing.")
def command(sink: Sink, spec_path: Path, dry_run: bool, **options: Any) -> int | None:
    """Start Triton on an arm's repository and keep it running until Ctrl-C.

    Shows the URLs when every model is ready and has answered. Ctrl-C or SIGTERM refuses new requests, lets those in
    work finish and stops what was started, never anything else; a second one ends it at once.
    """
    spec_file = load_spec(spec_path)
    if options["both"]:
        sink.note(f"[dim]{together(spec_file)}[/]")
    plans = _plans(spec_file, options, preview=dry_run)
    for note in dict.fromkeys(note for plan in plans.values() for note in plan.notes):
        sink.note(f"[yellow]note:[/] {note}")
    openai = openai_ports(spec_file, options["openai_port"], plans)
    if dry_run:
        show_plans(sink, plans, openai)
        return None
    for arm in plans:
        check_repository(spec_file, arm)
    check_endpoints(sink, spec_file, openai)
    _Serving(sink, spec_file, plans, options, openai).run()
    return None


def _plans(spec_file: SpecFile, options: dict[str, Any], *, preview: bool) -> dict[Arm, LaunchPlan]:
    """The start of each arm that is wanted."""
    first = _ports(spec_file, options)
    arms: tuple[Arm, ...] = ARMS if options["both"] else (options["arm"],)
    ports = dict(zip(arms, (first, second_ports(first)), strict=False))
    _refuse_shared(ports)
    chosen = ServeOptions(
        way=options["way"],
        image=options["image"],
        mode=options["mode"],
        world_size=options["world_size"],
        network=options["network"],
        metrics_host=options["metrics_host"],
        managed=True,
        preview=preview,
    )
    return {arm: launch_plan(spec_file, arm, ports[arm], log=arm_log(spec_file, arm), options=chosen) for arm in arms}


def _ports(spec_file: SpecFile, options: dict[str, Any]) -> Ports:
    serving = spec_file.spec.serving
    ports = Ports(
        options["http_port"] or serving.http_port,
        options["grpc_port"] or serving.grpc_port,
        options["metrics_port"] or serving.metrics_port,
    )
    if len({port for _, port in ports.items()}) < 3:
        raise click.UsageError("HTTP, gRPC and metrics need three different ports")
    return ports


def _refuse_shared(ports: dict[Arm, Ports]) -> None:
    """UsageError when two arms would listen on one port; found out before the first has loaded its engines."""
    from trtspec.repository.lint import Listener, collisions

    listeners = [Listener(arm, protocol, port) for arm, taken in ports.items() for protocol, port in taken.items()]
    for one, other in collisions(listeners):
        raise click.UsageError(f"port {one.port} would be {one} and {other}: choose ports that do not differ by 10")


class _Terminated(Exception):
    """SIGTERM arrived."""


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the block without an error, once what runs in it has been cleaned up."""

    def stop(_number: int, _frame: types.FrameType | None) -> None:
        raise _Terminated

    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except _Terminated:
        pass
    finally:
        signal.signal(signal.SIGTERM, previous)


@dataclass
class _Serving:
    """The servers of one `trtspec serve`, from their start to their end."""

    sink: Sink
    spec_file: SpecFile
    plans: dict[Arm, LaunchPlan]
    options: dict[str, Any]
    openai: dict[Arm, int]
    states: dict[Arm, Stated] = field(default_factory=dict)

    def run(self) -> None:
        with _terminable(), ExitStack() as stack:
            servers = {arm: self._start(arm, plan, stack) for arm, plan in self.plans.items()}
            endpoints = start_endpoints(self.spec_file, self.openai, servers, stack)
            for arm, endpoint in endpoints.items():
                self.states[arm].change(openai=endpoint.url)
            show_ready(self.sink, servers, {arm: endpoint.url for arm, endpoint in endpoints.items()})
            try:
                watch_all(
                    [*servers.values(), *endpoints.values()],
                    self.sink.note,
                    revived=lambda: self._tell_restarts(servers, endpoints),
                )
            except (KeyboardInterrupt, _Terminated):
                self._drain(servers)
                raise

    def _tell_restarts(self, servers: dict[Arm, RunningServer], endpoints: dict[Arm, OpenaiServer]) -> None:
        for arm, server in servers.items():
            endpoint = {"openai": endpoints[arm].restarts} if arm in endpoints and endpoints[arm].restarts else {}
            self.states[arm].follow(server, {**server.restarts, **endpoint})

    def _start(self, arm: Arm, plan: LaunchPlan, stack: ExitStack) -> RunningServer:
        seconds, note = ready_timeout(self.spec_file, plan.bytes, self.options["ready_timeout"])
        if note:
            self.sink.note(f"[dim]{note}[/]")
        server = start_server(plan, ready_timeout=seconds, reporter=self.sink, show_models=True)
        stack.enter_context(server)
        if not self.options["no_warmup"]:
            self._warm_up(server)
        self.states[arm] = stack.enter_context(stated(self.spec_file, arm, server))
        return server

    def _warm_up(self, server: RunningServer) -> None:
        limit = self.spec_file.spec.serving.request_timeout or _WARMUP_SECONDS
        with self.sink.task("first requests"):
            times = server.warm_up(limit)
        if times:
            shown = ", ".join(f"{seconds:.2g}" for seconds in times)
            self.sink.note(f"[dim]first requests: {shown} s[/]")

    def _drain(self, servers: dict[Arm, RunningServer]) -> None:
        """Let requests in work finish; a second signal kills."""
        given = self.options["drain_timeout"]
        limit = drain_seconds(self.spec_file) if given is None else given
        self.sink.note(f"no new requests; waiting up to {limit:g} s for those in work (again Ctrl-C: at once) …")
        begin = time.monotonic()
        try:
            finished = drain_all(servers, self.states, limit, self.sink.note)
        except (KeyboardInterrupt, _Terminated):
            finished = False
        if not finished:
            self.sink.note(f"ending it after {time.monotonic() - begin:.1f} s, whatever is still in work")
            for server in servers.values():
                server.stop(now=True)
