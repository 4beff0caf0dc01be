"""The start of an arm's server, whatever runs it: embedded, a tritonserver that is installed, or NVIDIA's image."""

from __future__ import annotations

import os
import shlex
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

from trtspec.errors import EnvironmentMissing, UsageError
from trtspec.serving.command_line import ServerFlags, listen_flags, rank_commands
from trtspec.serving.container import Network, ServerContainer, docker_argv, server_mounts, shm_bytes
from trtspec.serving.launch import Mode, Start, choose_start
from trtspec.serving.plain_paths import is_plain, plain_name
from trtspec.serving.plan import (
    EXIT_TIMEOUT,
    LaunchPlan,
    Listening,
    drain_seconds,
    repository_plan,
    security_flags,
    shm_prefix,
)
from trtspec.serving.ports import Ports, listen_address
from trtspec.serving.security import AdminKey, Tls, body_limit, new_admin_key, tls_of
from trtspec.serving.served import Served, expected_served, read_served
from trtspec.serving.ways import Host, Way, choose_way, image_for, look_around
from trtspec.spec import Arm, SpecFile

__all__ = ["ServeOptions", "launch_plan"]

# kills take this long beyond the server's own exit timeout
_STOP_SLACK = 10
# --http-max-input-size (server#8174) exists in every image from here on
_HAS_BODY_LIMIT = (25, 10)
# the frontend reads a tokenizer of this machine's, and never fetches one
_ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
# where a container sees a repository whose path a shell would take apart
_CONTAINED = "/trtspec-repository"
_NO_REPOSITORY = "there is no repository yet: this is the start that the spec leads to"
_ANYWHERE = "0.0.0.0"  # noqa: S104  # inside a container whose ports are published one by one


@dataclass(frozen=True)
class ServeOptions:
    """What the command line decides about a start; None: as the spec and this machine need it.

    managed: ordered loading and draining, which need a key that unlocks loading and unloading. preview: nothing of
    what the start needs must be here. host: this machine, looked at where it is not given.
    """

    way: Way | None = None
    image: str | None = None
    mode: Mode | None = None
    world_size: int | None = None
    network: Network = "host"
    metrics_host: str | None = None
    managed: bool = False
    preview: bool = False
    host: Host | None = None
    admin: AdminKey | None = None


def launch_plan(
    spec_file: SpecFile, arm: Arm, ports: Ports, *, log: Path, options: ServeOptions | None = None
) -> LaunchPlan:
    """The start of the server on an arm's generated repository.

    EnvironmentMissing when there is no server to start, UsageError for options that contradict the engines.
    """
    options = options or ServeOptions()
    serving = spec_file.spec.serving
    listening = Listening(serving.host, tls_of(serving, spec_file.root), options.metrics_host)
    admin = (options.admin or new_admin_key()) if options.managed else None
    host = options.host or look_around()
    way = choose_way(spec_file.spec, host, options.way, image=options.image, preview=options.preview)
    if way != "embedded":
        return _Deployed(spec_file, arm, ports, log, options, listening, admin, host, way).plan()
    _refuse_mpi(options)
    timeout = drain_seconds(spec_file) if options.managed else EXIT_TIMEOUT
    repository = spec_file.repository(arm)
    plan = repository_plan(repository, ports, log=log, listening=listening, admin=admin, exit_timeout=timeout)
    served = read_served(repository)
    missing = (_NO_REPOSITORY,) if options.preview and served is None else ()
    notes = (*_exposure_notes(listening, admin), *_link_notes(plan), *missing)
    return replace(plan, bytes=served.bytes if served else 0, notes=notes)


def _refuse_mpi(options: ServeOptions) -> None:
    if options.image is not None:
        raise UsageError("the torch runtime needs no image", fix="leave out --image")
    if options.mode not in (None, "direct") or options.world_size not in (None, 1):
        raise UsageError("the torch runtime has no MPI ranks", fix="leave out --launch and --world-size")


@dataclass(frozen=True)
class _Deployed:
    """A start with TensorRT engines, and what it depends on."""

    spec_file: SpecFile
    arm: Arm
    ports: Ports
    log: Path
    options: ServeOptions
    listening: Listening
    admin: AdminKey | None
    host: Host
    way: Way

    def plan(self) -> LaunchPlan:
        served, start = self._served()
        addresses = self.listening.addresses()
        exit_timeout = drain_seconds(self.spec_file)
        flags = self._flags(served, exit_timeout)
        argv = rank_commands(flags, start, pools=_gpus(served))
        plan = LaunchPlan(
            argv=argv,
            env={**_ENVIRONMENT, **start.env},
            ports=self.ports,
            log=self.log,
            host=listen_address(self.listening.host),
            repository=self.repository,
            installation=None,
            shm_prefix=flags.shm_prefix,
            way=self.way,
            addresses=addresses,
            start=start,
            exit_timeout=exit_timeout,
            admin=self.admin,
            tls=self.listening.tls,
            load_order=flags.load_order if start.world_size == 1 else (),
            bytes=served.bytes,
            notes=(*_exposure_notes(self.listening, self.admin), *self._notes(served)),
        )
        return self._contained(plan, served) if self.way == "docker" else self._local(plan)

    @property
    def repository(self) -> Path:
        return Path(os.path.abspath(self.spec_file.repository(self.arm)))  # noqa: PTH100

    @property
    def root(self) -> str | None:
        """The repository's path as the server sees it, where the spec names one."""
        return self.spec_file.spec.serving.repository_root

    def _served(self) -> tuple[Served, Start]:
        served = read_served(self.repository, self.root) or expected_served(self.spec_file, self.arm)
        return served, choose_start(served, self.options.mode, self.options.world_size)

    def _flags(self, served: Served, exit_timeout: int) -> ServerFlags:
        local = self.way == "path" and self.host.tritonserver is not None
        published = self.way == "docker" and self.options.network == "bridge"
        addresses = dict.fromkeys(self.listening.addresses(), _ANYWHERE) if published else self.listening.addresses()
        return ServerFlags(
            str(self.host.tritonserver) if local else "tritonserver",
            self._seen(),
            listen_flags(addresses, self.ports),
            shm_prefix(self.repository, self.listening.host, self.ports),
            exit_timeout,
            more=(*security_flags(self.listening, self.admin), *self._body_flags(served)),
            managed=self.admin is not None,
            load_order=served.load_order if self.admin is not None else (),
        )

    def _seen(self) -> str:
        """The repository's path as the server is told it."""
        if self.way != "docker":
            return str(plain_name(self.repository))
        return self.root or (str(self.repository) if is_plain(self.repository) else _CONTAINED)

    def _body_flags(self, served: Served) -> tuple[str, ...]:
        release = self.host.triton if self.way == "path" else _month(self._image(served))
        known = _numbers(release) >= _HAS_BODY_LIMIT
        return (f"--http-max-input-size={body_limit(self.spec_file.spec.serving)}",) if known else ()

    def _image(self, served: Served) -> str:
        return image_for(self.spec_file.spec, served.version, self.options.image)

    def _local(self, plan: LaunchPlan) -> LaunchPlan:
        needs_mpi = plan.start is not None and plan.start.mode != "direct"
        if needs_mpi and not self.host.mpirun and not self.options.preview:
            raise EnvironmentMissing("mpirun is not on PATH", fix="run trtspec in NVIDIA's image, or --with docker")
        link = plain_name(self.repository)
        plan = plan if link == self.repository else replace(plan, link=link)
        return replace(plan, notes=(*plan.notes, *_link_notes(plan)))

    def _contained(self, plan: LaunchPlan, served: Served) -> LaunchPlan:
        name = f"trtspec-{self.spec_file.spec.name}-{self.arm}-{uuid.uuid4().hex[:8]}"
        container = ServerContainer(
            image=self._image(served),
            name=name,
            mounts=server_mounts(served, self.repository, self._seen(), self.root, _tls_files(self.listening.tls)),
            shm=shm_bytes(served, plan.start.processes if plan.start else 1),
            stop_timeout=plan.exit_timeout + _STOP_SLACK,
            network=self.options.network,
            address=plan.addresses,
        )
        argv = docker_argv(container, plan.argv, plan.env, self.ports)
        return replace(plan, argv=argv, env={}, after=("docker", "rm", "-f", name), container=name)

    def _notes(self, served: Served) -> list[str]:
        notes = []
        if served.origin == "spec":
            notes.append(_NO_REPOSITORY)
        here, built = self.host.tensorrt_llm, served.version
        if self.way == "path" and here and built and _numbers(here)[:3] != _numbers(built)[:3]:
            notes.append(f"TensorRT-LLM {here} is installed here, the engines were built with {built}")
        return notes


def _exposure_notes(listening: Listening, admin: AdminKey | None) -> list[str]:
    if not listening.exposed:
        return []
    notes = [f"{listening.host} is reached from other machines: anyone there can send requests"]
    if admin is not None:
        notes.append("its APIs for administrators ask for the key in TRTSPEC_ADMIN_KEY, or a new one at each start")
    notes.append("Triton's HTTP is for trusted clients only: nested JSON ends the server up to 26.04 (docs/serving.md)")
    if listening.tls is None:
        notes.append("nothing is encrypted: serving.tls_certificate and tls_key do that for gRPC")
    else:
        notes.append("HTTP has no TLS in Triton and stays on loopback: put a proxy before it")
    if listening.metrics_host is None:
        notes.append("metrics stay on loopback: --metrics-host opens them")
    return notes


def _link_notes(plan: LaunchPlan) -> list[str]:
    if plan.link is None:
        return []
    text = (
        "Triton's Python backend cannot take this folder's path (a space, or what a shell would read): it is served by"
    )
    return [f"{text} a link, ln -sfn {shlex.quote(str(plan.repository))} {plan.link}"]


def _tls_files(tls: Tls | None) -> tuple[Path, ...]:
    return (tls.certificate, tls.key) if tls else ()


def _gpus(served: Served) -> int:
    """One more than the highest GPU that a model is given; where none is, as many as there are ranks."""
    named = [gpu + 1 for model in served.engines for gpu in model.gpus]
    return max(named, default=max((model.ranks for model in served.engines), default=1))


def _month(image: str) -> str | None:
    from trtspec.toolchain.images import image_tag

    repository, tag = image_tag(image)
    return tag.partition("-")[0] if repository.endswith("/tritonserver") else None


def _numbers(version: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in (version or "").split(".")[:3] if part.isdigit())
