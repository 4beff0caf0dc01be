"""How `trtspec serve` shows a start and a server that is ready."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel

from trtspec.cli.output import Sink
from trtspec.serving import LaunchPlan, RunningServer
from trtspec.spec import Arm
from trtspec.spec.names import FRONTEND_MODEL

__all__ = ["plan_data", "show_plans", "show_ready"]


def show_plans(sink: Sink, plans: Mapping[Arm, LaunchPlan], openai: Mapping[Arm, int]) -> None:
    """What would be started, as a command that can be pasted into a shell."""
    if len(plans) == 1:
        (plan,) = plans.values()
        data = {**plan_data(plan), "openai_port": next(iter(openai.values()), None)}
    else:
        arms = {arm: {**plan_data(plan), "openai_port": openai.get(arm)} for arm, plan in plans.items()}
        data = {"schema": 1, "arms": arms}
    quiet = "\n".join(shlex.join(plan.argv) for plan in plans.values())
    sink.result(data, lambda console: _show_plans(console, plans, openai), quiet=quiet)


def plan_data(plan: LaunchPlan) -> dict[str, Any]:
    """A start as `serve --dry-run --output json` prints it."""
    return {
        "schema": 1,
        "argv": list(plan.argv),
        "env": dict(plan.env),
        "ports": dict(plan.ports.items()),
        "addresses": {protocol: plan.address(protocol) for protocol, _ in plan.ports.items()},
        "log": str(plan.log),
        "with": plan.way,
        "launch": _launch_data(plan),
        "load_order": list(plan.load_order),
        "exit_timeout": plan.exit_timeout,
        "notes": list(plan.notes),
    }


def _launch_data(plan: LaunchPlan) -> dict[str, Any]:
    start = plan.start
    if start is None:
        return {"mode": "direct", "world_size": 1, "processes": 1, "why": "every model is a process of the server's"}
    return {"mode": start.mode, "world_size": start.world_size, "processes": start.processes, "why": start.why}


def _show_plans(console: Console, plans: Mapping[Arm, LaunchPlan], openai: Mapping[Arm, int]) -> None:
    for arm, plan in plans.items():
        if len(plans) > 1:
            console.print(f"[bold]# {arm}[/]")
        _show_plan(console, plan)
        if arm in openai:
            console.print(f"[dim]# and an OpenAI-compatible endpoint on port {openai[arm]}[/]")


def _show_plan(console: Console, plan: LaunchPlan) -> None:
    for name, value in plan.env.items():
        console.print(f"[dim]{escape(f'{name}={shlex.quote(value)}')} \\\\[/]")
    console.print(escape(" \\\n  ".join(_lines(plan.argv))))
    if plan.start is not None:
        console.print(f"[dim]# {escape(plan.start.why)}[/]")
    console.print(f"[dim]# log: {escape(str(plan.log))}[/]")
    if plan.load_order:
        _show_loading(console, plan)


def _lines(argv: Sequence[str]) -> list[str]:
    """The command line for reading: the program with its verb, then a line for each option with its value."""
    lines: list[str] = []
    for index, word in enumerate(argv):
        before = argv[index - 1] if index else ""
        verb = 0 < index < len(argv) - 1 and not any(other.startswith("-") for other in (*argv[:index], word))
        value = before.startswith("-") and "=" not in before and not word.startswith("-")
        if verb or value:
            lines[-1] += f" {shlex.quote(word)}"
        else:
            lines.append(shlex.quote(word))
    return lines


def _show_loading(console: Console, plan: LaunchPlan) -> None:
    """The requests that load the models, in the order that `trtspec serve` keeps."""
    console.print("[dim]# once it listens, one after the other:[/]")
    host = plan.address("http")
    address = f"[{host}]:{plan.ports.http}" if ":" in host else f"{host}:{plan.ports.http}"
    header = "" if plan.admin is None else f"-H {shlex.quote(': '.join(plan.admin.http_header))} "
    for model in plan.load_order:
        line = f"# curl -f {header}-d '{{}}' http://{address}/v2/repository/models/{model}/load"
        console.print(f"[dim]{escape(line)}[/]")


def show_ready(sink: Sink, servers: Mapping[Arm, RunningServer], openai: Mapping[Arm, str]) -> None:
    """Where the servers are and how to ask them; `openai`: URLs of the endpoints before them."""
    urls = {arm: _urls(server, openai.get(arm)) for arm, server in servers.items()}
    if len(servers) == 1:
        ((arm, server),) = servers.items()
        data = {"schema": 1, **_ready_data(server, arm, urls[arm])}
    else:
        data = {"schema": 1, "servers": [_ready_data(server, arm, urls[arm]) for arm, server in servers.items()]}
    quiet = "\n".join(server.http_url for server in servers.values())
    sink.result(data, lambda console: _show_all(console, servers, urls), quiet=quiet)


def _ready_data(server: RunningServer, arm: Arm, urls: Mapping[str, str]) -> dict[str, Any]:
    return {
        "arm": arm,
        "pid": server.pid,
        "models": list(server.models),
        "urls": dict(urls),
        "log": str(server.log),
        "with": server.plan.way,
    }


def _urls(server: RunningServer, openai: str | None) -> dict[str, str]:
    urls = {
        "http": f"http://{server.http_url}",
        "grpc": server.grpc_url,
        "metrics": f"http://{server.metrics_url}/metrics",
    }
    return urls if openai is None else {**urls, "openai": openai}


def _show_all(console: Console, servers: Mapping[Arm, RunningServer], urls: Mapping[Arm, Mapping[str, str]]) -> None:
    for arm, server in servers.items():
        _show_ready(console, server, arm, urls[arm])
    body = '{"text_input": "The capital of France is", "max_tokens": 64, "stream": true}'
    first = next(iter(servers.values()))
    console.print("Try it in another terminal:")
    console.print(f"  curl -N {first.http_url}/v2/models/{FRONTEND_MODEL}/generate_stream -d '{escape(body)}'")
    if len(servers) > 1:
        pairs = " ".join(f"--arm-url {arm}=http://{server.http_url}" for arm, server in servers.items())
        console.print(f"  trtspec loadtest {escape(pairs)}")


def _show_ready(console: Console, server: RunningServer, arm: Arm, urls: Mapping[str, str]) -> None:
    shown = "\n".join(f"[bold]{name:8}[/]{escape(url)}" for name, url in urls.items())
    text = f"{shown}\n[bold]log     [/]{escape(str(server.log))}\n[bold]stop    [/]Ctrl-C"
    console.print(
        Panel.fit(text, title=f"Triton is ready: {arm} arm, {len(server.models)} models", border_style="green")
    )
