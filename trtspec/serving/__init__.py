"""The embedded Triton server: launch plan, start, supervision, health and diagnosis."""

from trtspec.serving.attach import Endpoint, given_server, running_arm, some_server
from trtspec.serving.health import first_unready
from trtspec.serving.plan import LaunchPlan, launch_plan, repository_plan, spec_ports
from trtspec.serving.ports import Ports, connect_host, free_ports
from trtspec.serving.repositories import arm_log, check_repository
from trtspec.serving.server import RunningServer, start_server
from trtspec.serving.watch import watch

__all__ = [
    "Endpoint",
    "LaunchPlan",
    "Ports",
    "RunningServer",
    "arm_log",
    "check_repository",
    "connect_host",
    "first_unready",
    "free_ports",
    "given_server",
    "launch_plan",
    "repository_plan",
    "running_arm",
    "some_server",
    "spec_ports",
    "start_server",
    "watch",
]
