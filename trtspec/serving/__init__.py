"""Triton servers: the start as data, supervision, readiness, draining, status and diagnosis."""

from trtspec.serving.attach import Endpoint, given_server, running_arm, some_server
from trtspec.serving.both import arm_ports, second_ports, together
from trtspec.serving.deployment import ServeOptions, launch_plan
from trtspec.serving.health import first_unready
from trtspec.serving.plan import LaunchPlan, drain_seconds, repository_plan, spec_ports
from trtspec.serving.ports import Ports, connect_host, free_ports
from trtspec.serving.repositories import arm_log, check_repository
from trtspec.serving.server import RunningServer, start_server
from trtspec.serving.startup import ready_timeout
from trtspec.serving.watch import watch

__all__ = [
    "Endpoint",
    "LaunchPlan",
    "Ports",
    "RunningServer",
    "ServeOptions",
    "arm_log",
    "arm_ports",
    "check_repository",
    "connect_host",
    "drain_seconds",
    "first_unready",
    "free_ports",
    "given_server",
    "launch_plan",
    "ready_timeout",
    "repository_plan",
    "running_arm",
    "second_ports",
    "some_server",
    "spec_ports",
    "start_server",
    "together",
    "watch",
]
