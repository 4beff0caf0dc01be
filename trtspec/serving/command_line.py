"""The command line of tritonserver, alone or under mpirun.

The MPI form is that of tensorrtllm_backend's scripts/launch_triton_server.py (one `-n 1 tritonserver …` for each rank,
a shared-memory prefix for each, ranks above 0 with the engines' models alone, no CUDA and pinned pools where workers
are spawned), without its wrapper: that starts the server in the background and returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trtspec.serving.launch import Start
from trtspec.serving.ports import Ports

__all__ = ["ServerFlags", "listen_flags", "rank_commands", "server_argv"]

# Seconds until a model process must have started (interpreter and the model's imports; torch is slow on a busy disk).
STUB_TIMEOUT = 120
_EXPLICIT = "--model-control-mode=explicit"


@dataclass(frozen=True)
class ServerFlags:
    """What one server is told, besides what its MPI rank decides.

    `more` goes to the rank that serves: restrictions, TLS, limits. `managed`: models can be loaded and unloaded by us.
    `load_order`: we load them one by one (Triton takes --load-model in the alphabet's order, whatever is written).
    """

    binary: str
    repository: str
    listen: tuple[str, ...]
    shm_prefix: str
    exit_timeout: int
    backends: str | None = None
    more: tuple[str, ...] = ()
    managed: bool = False
    load_order: tuple[str, ...] = ()


def listen_flags(addresses: Mapping[str, str], ports: Ports) -> tuple[str, ...]:
    """Address and port of each protocol, in the ways in which Triton's two web servers want an IPv6 address."""

    def written(protocol: str) -> str:
        host = addresses[protocol]
        if ":" not in host:
            return host
        return f"[{host}]" if protocol == "grpc" else f"ipv6:{host}"

    return tuple(
        flag
        for protocol, port in ports.items()
        for flag in (f"--{protocol}-address={written(protocol)}", f"--{protocol}-port={port}")
    )


def server_argv(flags: ServerFlags, prefix: str, *, control: tuple[str, ...]) -> tuple[str, ...]:
    """One tritonserver; `prefix` names its shared memory, `control` says which models it loads."""
    backends = () if flags.backends is None else (f"--backend-directory={flags.backends}",)
    return (
        flags.binary,
        f"--model-repository={flags.repository}",
        *backends,
        f"--backend-config=python,shm-region-prefix-name={prefix}",
        f"--backend-config=python,stub-timeout-seconds={STUB_TIMEOUT}",
        # the generated configurations are complete; completing them would load every model twice
        "--disable-auto-complete-config",
        *flags.listen,
        f"--exit-timeout-secs={flags.exit_timeout}",
        *control,
    )


def rank_commands(flags: ServerFlags, start: Start | None, pools: int = 0) -> tuple[str, ...]:
    """tritonserver, or mpirun with a tritonserver for each rank; `pools`: GPUs that get no memory pools."""
    first = server_argv(flags, flags.shm_prefix, control=(*_control(flags, start), *flags.more))
    if start is None or start.mode == "direct":
        return first
    spawned = _without_pools(pools) if start.spawns else ()
    argv = ["mpirun", "--allow-run-as-root", "-n", "1", *first, *spawned]
    workers = (_EXPLICIT, *(f"--load-model={name}" for name in start.engines))
    for rank in range(1, start.world_size):
        argv += [":", "-n", "1", *server_argv(flags, f"{flags.shm_prefix}{rank}-", control=workers)]
    return tuple(argv)


def _control(flags: ServerFlags, start: Start | None) -> tuple[str, ...]:
    """Which models the serving rank loads, and how."""
    if not flags.managed:
        return ()
    if flags.load_order and (start is None or start.world_size == 1):
        return (_EXPLICIT,)  # loaded by us, in order
    return (_EXPLICIT, "--load-model=*")


def _without_pools(gpus: int) -> tuple[str, ...]:
    """Pools that would take memory from the spawned workers' engines."""
    pools = (f"--cuda-memory-pool-byte-size={gpu}:0" for gpu in range(gpus))
    return ("--pinned-memory-pool-byte-size=0", "--enable-peer-access=false", *pools)
