"""`trtspec status`."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trtspec.cli.command import command as make_command
from trtspec.cli.command import command_line, examples
from trtspec.cli.output import Sink
from trtspec.serving.ports import Ports
from trtspec.serving.status import EndpointStatus, ServerStatus, server_status, spec_status
from trtspec.spec import load_spec
from trtspec.units import duration_text

__all__ = ["command"]

_NOT_READY = 5
_SPEC = Path("trtspec.yaml")


@make_command(
    epilog=examples(
        "trtspec status", "trtspec status trtspec.yaml --output json", "trtspec status gpu1:8000 --metrics-port 8002"
    )
)
@click.argument("what", metavar="[SPEC|HOST:PORT]", default=str(_SPEC))
@click.option("--metrics-port", type=click.IntRange(1, 65535), help="For HOST:PORT; default: two above PORT.")
def command(sink: Sink, what: str, metrics_port: int | None) -> int | None:
    """Tell which servers run for a spec, or what the one at an HTTP address does.

    Ends with 5 when none runs or one is not ready.
    """
    address = _address(what)
    if address is None:
        found = spec_status(load_spec(Path(what)))
        hint = command_line("serve", Path(what))
    else:
        host, port = address
        found = [server_status(host, Ports(port, port + 1, metrics_port or port + 2))]
        hint = "trtspec serve SPEC"
    data = {"schema": 1, "servers": [server.to_json() for server in found]}
    quiet = "\n".join(f"{server.url} {_word(server)}" for server in found)
    sink.result(data, lambda console: _show(console, found, hint), quiet=quiet)
    return None if found and all(server.well for server in found) else _NOT_READY


def _address(text: str) -> tuple[str, int] | None:
    """Host and port of `HOST:PORT` or an http URL; None for what names a file."""
    if Path(text).exists() or text.endswith((".yaml", ".yml")):
        return None
    parts = urlsplit(text if "://" in text else f"http://{text}")
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme != "http" or not parts.hostname or port is None:
        raise click.UsageError(f"{text}: neither a spec file nor HOST:PORT of a server's HTTP")
    return parts.hostname, port


def _word(server: ServerStatus) -> str:
    if not server.live:
        return "down"
    if server.phase == "draining":
        return "draining"
    return "ready" if server.ready else "not ready"


def _endpoint_word(endpoint: EndpointStatus) -> str:
    if not endpoint.live:
        return "down"
    return "ready" if endpoint.ready else "not ready"


def _show(console: Console, found: list[ServerStatus], hint: str) -> None:
    if not found:
        console.print(f"nothing runs for this spec; start it: {escape(hint)}")
    for server in found:
        _show_server(console, server)


def _show_server(console: Console, server: ServerStatus) -> None:
    color = "green" if server.ready else "red"
    arm = f"{server.arm} arm, " if server.arm else ""
    console.print(f"[bold]{escape(server.url)}[/] {arm}[{color}]{_word(server)}[/]")
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 2))
    for name, value in _facts(server):
        table.add_row(name, escape(value))
    for model in server.models:
        versions = f" (version {', '.join(model.versions)})" if model.versions else ""
        table.add_row(model.name, f"{'[green]ready[/]' if model.ready else '[red]not ready[/]'}{versions}")
    console.print(table)


def _facts(server: ServerStatus) -> list[tuple[str, str]]:
    facts: list[tuple[str, Any]] = [
        ("server", f"{server.server} {server.version}" if server.version else None),
        ("started with", " ".join(filter(None, (server.way, server.launch_mode, server.container))) or None),
        ("pid", server.pid),
        ("up", None if server.uptime_seconds is None else duration_text(server.uptime_seconds)),
        ("metrics", f"http://{server.metrics_url}/metrics"),
        ("openai", None if server.openai is None else f"{server.openai.url} {_endpoint_word(server.openai)}"),
        ("restarted", _restarts(server.restarts or {})),
        ("log", server.log),
        *_metric_facts(server.metrics),
    ]
    return [(name, str(value)) for name, value in facts if value is not None]


def _restarts(counts: dict[str, int]) -> str | None:
    """What died and was started again."""
    shown = [f"{name} {count} {'time' if count == 1 else 'times'}" for name, count in sorted(counts.items())]
    return ", ".join(shown) or None


def _metric_facts(metrics: dict[str, Any] | None) -> list[tuple[str, str | None]]:
    if metrics is None:
        return [("requests", "not known: nothing answers on the metrics port")]
    rate = metrics["acceptance_rate"]
    failures = metrics["failures"]
    caches = metrics["kv_cache"] or {}
    return [
        ("requests", None if metrics["requests"] is None else _requests(metrics, failures)),
        ("acceptance", None if rate is None else f"{rate:.1%} of {metrics['drafted_tokens']} drafted tokens"),
        ("from the text", _lookups(metrics.get("lookups"))),
        *((f"KV cache {model}", _kv(blocks)) for model, blocks in caches.items()),
    ]


def _requests(metrics: dict[str, Any], failures: dict[str, int] | None) -> str:
    running = "" if metrics["running"] is None else f", {metrics['running']} in work"
    failed = "" if failures is None else f", {sum(failures.values())} failed"
    why = f" ({', '.join(f'{count} {name}' for name, count in failures.items())})" if failures else ""
    return f"{metrics['requests']} ended{failed}{why}{running}"


def _lookups(counts: dict[str, Any] | None) -> str | None:
    if counts is None:
        return None
    rate = counts["acceptance_rate"]
    accepted = "" if rate is None else f", {rate:.1%} of {counts['drafted_tokens']} drafted tokens"
    return f"{counts['rounds']} rounds{accepted}"


def _kv(blocks: dict[str, float]) -> str:
    share = blocks.get("fraction")
    if share is None and blocks.get("max"):
        share = blocks.get("used", 0.0) / blocks["max"]
    shown = "" if share is None else f"{share:.0%}, "
    return f"{shown}{blocks.get('used', 0):.0f} of {blocks.get('max', 0):.0f} blocks"
