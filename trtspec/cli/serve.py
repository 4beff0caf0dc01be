"""`trtspec serve`."""

from __future__ import annotations

import signal
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel

from trtspec.cli.command import command as make_command
from trtspec.cli.command import examples, spec_argument
from trtspec.cli.output import Sink
from trtspec.serving import (
    LaunchPlan,
    Ports,
    RunningServer,
    arm_log,
    check_repository,
    launch_plan,
    start_server,
    watch,
)
from trtspec.spec import ARMS, Arm, SpecFile, load_spec
from trtspec.spec.names import FRONTEND_MODEL, SPECULATIVE

__all__ = ["command"]

_PORT = click.IntRange(1, 65535)


@make_command(
    epilog=examples(
        "trtspec serve",
        "trtspec serve trtspec.yaml --arm baseline --http-port 8100 --grpc-port 8101 --metrics-port 8102",
        "trtspec serve --dry-run --output json",
    )
)
@spec_argument
@click.option("--arm", type=click.Choice(ARMS), default=SPECULATIVE, show_default=True, help="Which repository.")
@click.option("--http-port", type=_PORT, help="Instead of the spec's.")
@click.option("--grpc-port", type=_PORT, help="Instead of the spec's.")
@click.option("--metrics-port", type=_PORT, help="Instead of the spec's.")
@click.option("--ready-timeout", type=click.FloatRange(min=1), help="Seconds until the server must be ready.")
@click.option("--dry-run", is_flag=True, help="Show the command line and start nothing.")
def command(sink: Sink, spec_path: Path, arm: Arm, dry_run: bool, **options: Any) -> int | None:
    """Start Triton on an arm's repository and keep it running until Ctrl-C.

    Shows the URLs when every model is ready. Ctrl-C or SIGTERM lets requests in flight finish and stops what was
    started, never anything else.
    """
    spec_file = load_spec(spec_path)
    plan = launch_plan(spec_file, arm, _ports(spec_file, options), log=arm_log(spec_file, arm))
    if dry_run:
        sink.result(_plan_data(plan), lambda console: _show_plan(console, plan), quiet=" ".join(plan.argv))
        return None
    check_repository(spec_file, arm)
    timeout = options["ready_timeout"] or spec_file.spec.serving.ready_timeout
    _serve(sink, plan, arm, timeout)
    return None


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


def _serve(sink: Sink, plan: LaunchPlan, arm: Arm, ready_timeout: float) -> None:
    with _terminable(), start_server(plan, ready_timeout=ready_timeout, reporter=sink) as server:
        sink.result(_ready_data(server, arm), lambda console: _show_ready(console, server, arm), quiet=server.http_url)
        try:
            watch(server, sink.note)
        except (KeyboardInterrupt, _Terminated):
            sink.note("stopping the server (again Ctrl-C: at once) …")
            raise


def _plan_data(plan: LaunchPlan) -> dict[str, Any]:
    return {
        "schema": 1,
        "argv": list(plan.argv),
        "env": dict(plan.env),
        "ports": dict(plan.ports.items()),
        "log": str(plan.log),
    }


def _show_plan(console: Console, plan: LaunchPlan) -> None:
    for name, value in plan.env.items():
        console.print(f"[dim]{escape(name)}={escape(value)} \\\\[/]")
    console.print(escape(" \\\n  ".join(plan.argv)))
    console.print(f"[dim]# log: {escape(str(plan.log))}[/]")


def _ready_data(server: RunningServer, arm: Arm) -> dict[str, Any]:
    return {
        "schema": 1,
        "arm": arm,
        "pid": server.pid,
        "models": list(server.models),
        "urls": _urls(server),
        "log": str(server.log),
    }


def _urls(server: RunningServer) -> dict[str, str]:
    return {
        "http": f"http://{server.http_url}",
        "grpc": server.grpc_url,
        "metrics": f"http://{server.metrics_url}/metrics",
    }


def _show_ready(console: Console, server: RunningServer, arm: Arm) -> None:
    urls = "\n".join(f"[bold]{name:8}[/]{url}" for name, url in _urls(server).items())
    text = f"{urls}\n[bold]log     [/]{escape(str(server.log))}\n[bold]stop    [/]Ctrl-C"
    console.print(
        Panel.fit(text, title=f"Triton is ready: {arm} arm, {len(server.models)} models", border_style="green")
    )
    body = '{"text_input": "The capital of France is", "max_tokens": 64, "stream": true}'
    console.print("Try it in another terminal:")
    console.print(f"  curl -N {server.http_url}/v2/models/{FRONTEND_MODEL}/generate_stream -d '{escape(body)}'")
