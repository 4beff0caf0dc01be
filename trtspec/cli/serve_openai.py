"""The OpenAI-compatible endpoints of `trtspec serve`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack

import click

from trtspec.cli.output import Sink
from trtspec.openai_api import API_KEY, OpenaiServer, Settings, check_openai, openai_server
from trtspec.serving import LaunchPlan, RunningServer, arm_log
from trtspec.serving.both import endpoint_ports
from trtspec.serving.security import is_loopback
from trtspec.spec import Arm, SpecFile

__all__ = ["check_endpoints", "openai_ports", "start_endpoints"]


def openai_ports(spec_file: SpecFile, given: int | None, plans: Mapping[Arm, LaunchPlan]) -> dict[Arm, int]:
    """The port of each arm's endpoint, the second one 10 higher; empty when none is wanted."""
    ports = endpoint_ports(given or spec_file.spec.serving.openai_port, plans)
    if not ports:
        return {}
    taken = {port for plan in plans.values() for _, port in plan.ports.items()}
    if taken & set(ports.values()) or max(ports.values()) > 65535:
        raise click.UsageError("the OpenAI-compatible endpoint needs a port of its own (--openai-port)")
    return ports


def check_endpoints(sink: Sink, spec_file: SpecFile, ports: Mapping[Arm, int]) -> None:
    """Return when the endpoints could be started; tell when anybody could use them."""
    host = spec_file.spec.serving.host
    for port in ports.values():
        check_openai(host, port)
    if ports and not is_loopback(host) and not os.environ.get(API_KEY):
        sink.note(f"[yellow]note:[/] whoever reaches {host} can use the OpenAI endpoint; {API_KEY} sets a key")


def start_endpoints(
    spec_file: SpecFile, ports: Mapping[Arm, int], servers: Mapping[Arm, RunningServer], stack: ExitStack
) -> dict[Arm, OpenaiServer]:
    """The endpoints before `servers`, until `stack` ends."""
    endpoints = {}
    for arm, port in ports.items():
        server = servers[arm]
        settings = Settings.of_spec(spec_file.spec, port, grpc_url=server.grpc_url, metrics_url=server.metrics_url)
        endpoints[arm] = stack.enter_context(openai_server(settings, log=arm_log(spec_file, arm, "openai")))
    return endpoints
