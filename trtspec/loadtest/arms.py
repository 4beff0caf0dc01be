"""The two servers under test: started here and stopped afterwards, or already running somewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from trtspec.loadtest.options import RunOptions
from trtspec.loadtest.run_folder import RunFolder
from trtspec.progress import Reporter
from trtspec.spec import SpecFile
from trtspec.spec.names import ARMS, Arm

__all__ = ["ArmServer", "check_repositories", "open_arms"]


@dataclass(frozen=True)
class ArmServer:
    """Where an arm answers (gRPC HOST:PORT), and why it never will again (`fatal`), if that can be known."""

    url: str
    fatal: Callable[[], str | None] = lambda: None


def check_repositories(spec_file: SpecFile) -> None:
    """Return when both arms have a model repository that fits the spec; ArtefactMissing tells the command to type."""
    from trtspec.serving import check_repository

    for arm in ARMS:
        check_repository(spec_file, arm)


@contextmanager
def open_arms(
    spec_file: SpecFile, options: RunOptions, folder: RunFolder, reporter: Reporter
) -> Iterator[dict[Arm, ArmServer]]:
    """Both arms ready to be asked; servers that were started here are stopped on leaving."""
    if options.urls:
        yield {arm: ArmServer(options.urls[arm]) for arm in ARMS}
        return
    reporter.note("starting both arms' servers")
    with ExitStack() as servers:
        yield {arm: _start(spec_file, arm, folder, reporter, servers) for arm in ARMS}


def _start(spec_file: SpecFile, arm: Arm, folder: RunFolder, reporter: Reporter, servers: ExitStack) -> ArmServer:
    from trtspec.serving import free_ports, launch_plan, start_server

    host = spec_file.spec.serving.host
    plan = launch_plan(spec_file, arm, free_ports(host), log=folder.server_log(arm))
    timeout = spec_file.spec.serving.ready_timeout
    server = servers.enter_context(start_server(plan, ready_timeout=timeout, reporter=reporter))
    return ArmServer(server.grpc_url, server.fatal)
