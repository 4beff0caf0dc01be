"""A server inside NVIDIA's image: `docker run` with every folder that it reads at the place it has here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trtspec.building.tensorrt.docker import Mount, checkpoint_mounts, reduced_mounts
from trtspec.serving.ports import Ports
from trtspec.serving.served import Served

__all__ = ["Network", "ServerContainer", "docker_argv", "server_mounts", "shm_bytes"]

Network = Literal["host", "bridge"]
# triton-inference-server/server#3678: about 64 MiB for each Python model instance
_PER_INSTANCE = 64 << 20
# NCCL between ranks without peer access goes through shared memory (NVIDIA's containers recommend 1 GiB)
_BETWEEN_RANKS = 1 << 30
_PASSED = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
_MIB = 1 << 20


@dataclass(frozen=True)
class ServerContainer:
    """The container of one server; `address` is where its ports are published with the network "bridge"."""

    image: str
    name: str
    mounts: tuple[str, ...]
    shm: int
    stop_timeout: int
    network: Network = "host"
    address: Mapping[str, str] | None = None


def shm_bytes(served: Served, processes: int) -> int:
    """Bytes of /dev/shm: the Python models', the server's own, and those between ranks."""
    return _PER_INSTANCE * (served.python_instances + 1) + (_BETWEEN_RANKS if processes > 1 else 0)


def server_mounts(
    served: Served, repository: Path, seen: str, root: str | None, more: Iterable[Path] = ()
) -> tuple[str, ...]:
    """--mount values: the repository, engines, tokenizers and where links lead.

    The repository lies where the server has `seen` it, and at its own path too where its files name no other `root`.
    """
    folders = [folder for model in served.models for folder in model.folders]
    outside = [folder for folder in folders if not folder.is_relative_to(repository)]
    linked = [mount for path in repository.glob("*/[0-9]*") for mount in checkpoint_mounts(path)]
    linked = [mount for mount in linked if not mount.path.is_relative_to(repository.resolve())]
    own = [] if root else [Mount(repository)]
    places = [Mount(folder) for folder in (*outside, *more)]
    real = [mount for folder in outside if folder.is_dir() for mount in checkpoint_mounts(folder)]
    values = [mount.option() for mount in reduced_mounts([*own, *places, *real, *linked])]
    return tuple(values) if seen == str(repository) else (Mount(repository, target=seen).option(), *values)


def docker_argv(
    container: ServerContainer, argv: Sequence[str], env: Mapping[str, str], ports: Ports
) -> tuple[str, ...]:
    """`argv` in the container: as this user, all GPUs (the models name theirs), removed when it ends.

    --init forwards signals, so SIGTERM to docker ends the server as it would here.
    """
    settings = {"HOME": "/tmp", "USER": "trtspec", **env}  # noqa: S108  # in the container
    return (
        "docker", "run", "--rm", "--init", "--name", container.name, "--gpus", "all",
        f"--shm-size={-(-container.shm // _MIB)}m", "--ulimit", "memlock=-1", "--ulimit", "stack=67108864",
        f"--stop-timeout={container.stop_timeout}", *_network(container, ports),
        "-u", f"{os.getuid()}:{os.getgid()}",
        *(part for mount in container.mounts for part in ("--mount", mount)),
        *(part for key, value in settings.items() for part in ("-e", f"{key}={value}")),
        *(part for key in _PASSED if key in os.environ and key not in settings for part in ("-e", key)),
        "-w", "/tmp", container.image, *argv,  # noqa: S108
    )  # fmt: skip


def _network(container: ServerContainer, ports: Ports) -> list[str]:
    if container.network == "host":
        return ["--network", "host"]
    address = container.address or {}
    hosts = {protocol: address.get(protocol, "127.0.0.1") for protocol, _ in ports.items()}
    shown = {protocol: f"[{host}]" if ":" in host else host for protocol, host in hosts.items()}
    return [part for protocol, port in ports.items() for part in ("-p", f"{shown[protocol]}:{port}:{port}")]
