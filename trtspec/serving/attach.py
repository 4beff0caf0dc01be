"""Finding a server that already serves a deployment, or starting one for as long as it is needed."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath

from trtspec.errors import RequestFailed, ServerUnreachable
from trtspec.progress import Reporter
from trtspec.serving.certificates import tls_address
from trtspec.serving.deployment import launch_plan
from trtspec.serving.plan import spec_ports
from trtspec.serving.ports import connect_host, free_ports
from trtspec.serving.repositories import arm_log, check_repository
from trtspec.serving.security import tls_of
from trtspec.serving.server import start_server
from trtspec.serving.state import running_states
from trtspec.spec import ARM_ROLES, ARMS, Arm, SpecFile
from trtspec.spec.names import FRONTEND_MODEL, SPECULATIVE, TARGET_MODEL

__all__ = ["Endpoint", "given_server", "running_arm", "some_server"]

_PROBE_SECONDS = 5.0


@dataclass(frozen=True)
class Endpoint:
    """Where to send requests: gRPC `url` (HOST:PORT), its arm where that is known, and whether we started it."""

    url: str
    arm: Arm | None
    started: bool


@contextmanager
def some_server(spec_file: SpecFile, arm: Arm | None, reporter: Reporter) -> Iterator[Endpoint]:
    """The server that `trtspec serve` keeps running for this spec, or that serves it on the spec's gRPC port.

    It must serve `arm`, where one is asked for.

    Otherwise one is started on free ports, with the speculative arm unless asked, and stopped at the end.
    """
    if known := _known(spec_file, arm):
        yield known
        return
    host = spec_file.spec.serving.host
    url = _spec_url(spec_file)
    found = running_arm(spec_file, url) if _listens(url) else None
    if found is not None and arm in (None, found):
        yield Endpoint(url, found, started=False)
        return
    wanted = arm or SPECULATIVE
    check_repository(spec_file, wanted)
    reporter.note(f"no server with the {wanted} arm of {spec_file.spec.name} at {url}: starting one for this question")
    plan = launch_plan(spec_file, wanted, free_ports(host), log=arm_log(spec_file, wanted, "ask"))
    server = start_server(plan, ready_timeout=spec_file.spec.serving.ready_timeout, reporter=reporter)
    try:
        yield Endpoint(server.grpc_url, wanted, started=True)
    finally:
        server.stop(now=True)


def _known(spec_file: SpecFile, arm: Arm | None) -> Endpoint | None:
    """A ready server that trtspec started for this spec; the speculative one where both would do."""
    ready = [state for state in running_states(spec_file) if state.phase == "ready" and arm in (None, state.arm)]
    return next((Endpoint(state.grpc_url, state.arm, started=False) for state in ready), None)


def given_server(spec_file: SpecFile, url: str) -> Endpoint:
    """The server at `url`; ServerUnreachable when its frontend is not ready."""
    return Endpoint(url, _arm_of(spec_file, asyncio.run(_frontend_engine(url))), started=False)


def running_arm(spec_file: SpecFile, url: str) -> Arm | None:
    """The arm of this deployment that the server at `url` serves; None when it serves something else or nothing."""
    try:
        return _arm_of(spec_file, asyncio.run(_frontend_engine(url)))
    except (RequestFailed, ServerUnreachable):
        return None


def _arm_of(spec_file: SpecFile, engine: str) -> Arm | None:
    folders = {arm: spec_file.engines(ARM_ROLES[arm][TARGET_MODEL]).resolve() for arm in ARMS}
    return next((arm for arm, folder in folders.items() if engine and PurePath(engine).parent == folder), None)


async def _frontend_engine(url: str) -> str:
    """The target's engine folder that the frontend behind `url` was generated for; empty when it does not say.

    It says so to administrators alone where the server listens beyond loopback.
    """
    from tritonclient.grpc import service_pb2

    from trtspec.wire import Connection, wait_ready

    async with Connection(url) as connection:
        await wait_ready(connection, timeout=_PROBE_SECONDS)
        request = service_pb2.ModelConfigRequest(name=FRONTEND_MODEL)
        try:
            answer = await connection.unary("ModelConfig", request, timeout=_PROBE_SECONDS)
        except RequestFailed as error:
            if "is restricted" in error.message:
                return ""
            raise
    return str(answer.config.parameters["tokenizer_dir"].string_value)


def _spec_url(spec_file: SpecFile) -> str:
    """The gRPC address that the spec's server has for clients on this machine."""
    host, port = connect_host(spec_file.spec.serving.host), spec_ports(spec_file).grpc
    plain = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    tls = tls_of(spec_file.spec.serving, spec_file.root)
    return tls_address(plain, tls.certificate) if tls else plain


def _listens(url: str) -> bool:
    """True when something accepts connections there: saves importing gRPC when nothing does."""
    host, _, port = re.split("[?#]", url.removeprefix("grpcs://"), maxsplit=1)[0].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=2).close()
    except OSError:
        return False
    return True
