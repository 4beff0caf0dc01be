"""A whole deployment of a tiny pair: engines, repositories, and a server for each arm when it is wanted."""

from __future__ import annotations

from pathlib import Path

from tests.builders import toy_spec
from trtspec.progress import SilentReporter
from trtspec.serving import RunningServer, free_ports, launch_plan, spec_ports, start_server
from trtspec.spec import Arm, SpecFile

__all__ = ["ToyDeployment", "build_toy"]


class ToyDeployment:
    """Built once a session; `server(arm)` starts an arm on first use."""

    def __init__(self, spec_file: SpecFile) -> None:
        self.spec_file = spec_file
        self._servers: dict[Arm, RunningServer] = {}

    def server(self, arm: Arm) -> RunningServer:
        """The running server of an arm; the speculative one listens on the spec's own ports."""
        running = self._servers.get(arm)
        if running is None or not running.alive():
            ports = spec_ports(self.spec_file) if arm == "speculative" else free_ports()
            plan = launch_plan(self.spec_file, arm, ports, log=self.spec_file.root / f"{arm}.log")
            self._servers[arm] = start_server(plan, ready_timeout=120)
        return self._servers[arm]

    def close(self) -> None:
        """Stop what runs."""
        for server in self._servers.values():
            server.stop(now=True)


def build_toy(folder: Path) -> SpecFile:
    """A toy spec on free ports with built engines and generated repositories."""
    from trtspec.building import build_engines
    from trtspec.repository import generate

    http, grpc, metrics = (port for _, port in free_ports().items())
    spec_file = toy_spec(folder, serving={"http_port": http, "grpc_port": grpc, "metrics_port": metrics})
    build_engines(spec_file, reporter=SilentReporter())
    generate(spec_file)
    return spec_file
