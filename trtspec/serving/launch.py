"""How the processes of a server with TensorRT-LLM engines are started: direct, leader or orchestrator.

Facts: tensorrtllm_backend docs/model_config.md (leader and orchestrator mode) and scripts/launch_triton_server.py; the
C++ backend's getParallelConfigFromParams. Decided by the engines' own mapping; what contradicts it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from trtspec.errors import UsageError
from trtspec.serving.served import Served, ServedModel

__all__ = ["MODES", "Mode", "Start", "choose_start"]

Mode = Literal["direct", "leader", "orchestrator", "orchestrator-no-spawn"]
MODES: tuple[Mode, ...] = ("direct", "leader", "orchestrator", "orchestrator-no-spawn")


@dataclass(frozen=True)
class Start:
    """One start: its mode, the MPI ranks that are started (`world_size`), all processes, the engines' models, and why.

    Ranks above 0 load `engines` alone; rank 0 serves.
    """

    mode: Mode
    world_size: int
    processes: int
    engines: tuple[str, ...]
    why: str

    @property
    def spawns(self) -> bool:
        """Whether the server starts the workers itself."""
        return self.mode == "orchestrator"

    @property
    def env(self) -> dict[str, str]:
        """Variables that put the backend into this mode."""
        if not self.mode.startswith("orchestrator"):
            return {}
        return {"TRTLLM_ORCHESTRATOR": "1", "TRTLLM_ORCHESTRATOR_SPAWN_PROCESSES": "1" if self.spawns else "0"}


def choose_start(served: Served, mode: Mode | None = None, world_size: int | None = None) -> Start:
    """The start that the engines need, or in `mode`; UsageError for a mode or size that contradicts them."""
    engines = served.engines
    chosen = mode or _mode_for(engines)
    start = _START[chosen](engines)
    if world_size is not None and world_size != start.world_size:
        raise UsageError(
            f"{chosen} mode starts {_ranks(start.world_size)} for these engines ({_sizes(engines)}), "
            f"--world-size is {world_size}",
            fix=f"leave out --world-size, or give {start.world_size}",
        )
    return start


def _mode_for(engines: Sequence[ServedModel]) -> Mode:
    if len(engines) > 1 and any(model.participants or model.fast_logits for model in engines):
        return "orchestrator-no-spawn"
    if all(model.ranks == 1 for model in engines):
        return "direct"
    return "leader" if len(engines) == 1 else "orchestrator"


def _direct(engines: Sequence[ServedModel]) -> Start:
    for model in engines:
        if model.ranks > 1:
            raise UsageError(f"direct mode has one process, {_sizes([model])}", fix=f"--launch {_mode_for(engines)}")
    why = "every engine has one rank: one process, without MPI"
    return Start("direct", 1, 1, _names(engines), why)


def _leader(engines: Sequence[ServedModel]) -> Start:
    sizes = {model.ranks for model in engines}
    if not engines or len(sizes) > 1:
        message = f"leader mode wants engines of one size, {_sizes(engines) or 'there is none'}"
        raise UsageError(message, fix=f"--launch {_mode_for(engines)}")
    ranks = sizes.pop()
    why = f"leader: an MPI rank for each of the engine's {ranks}, rank 0 serves"
    if len(engines) > 1:
        why += "; NVIDIA documents leader mode for one model only"
    return Start("leader", ranks, ranks, _names(engines), why)


def _orchestrator(engines: Sequence[ServedModel]) -> Start:
    total = 1 + sum(model.ranks for model in engines)
    why = f"orchestrator: one process serves and spawns {total - 1} workers ({_sizes(engines)}), on this machine only"
    return Start("orchestrator", 1, total, _names(engines), why)


def _no_spawn(engines: Sequence[ServedModel]) -> Start:
    _check_participants(engines)
    total = 1 + sum(model.ranks for model in engines)
    why = f"orchestrator without spawning: rank 0 serves, ranks 1 to {total - 1} are the engines' ({_sizes(engines)})"
    return Start("orchestrator-no-spawn", total, total, _names(engines), why)


_START: dict[Mode, Callable[[Sequence[ServedModel]], Start]] = {
    "direct": _direct,
    "leader": _leader,
    "orchestrator": _orchestrator,
    "orchestrator-no-spawn": _no_spawn,
}


def _check_participants(engines: Sequence[ServedModel]) -> None:
    """UsageError unless every rank from 1 up belongs to exactly one model."""
    fix = "trtspec repo writes participant_ids where serving.fast_logits and acceptance: logits ask for this mode"
    problems = [
        f"{model.name} has {len(model.participants)} participant_ids for {_ranks(model.ranks)}"
        for model in engines
        if len(model.participants) != model.ranks
    ]
    taken = sorted(rank for model in engines for rank in model.participants)
    if not problems and taken != list(range(1, len(taken) + 1)):
        problems = [f"participant_ids are {', '.join(map(str, taken))}; each of 1 to {len(taken)} is needed once"]
    if problems:
        raise UsageError(f"without spawning, every rank must be given: {'; '.join(problems)}", fix=fix)


def _names(engines: Sequence[ServedModel]) -> tuple[str, ...]:
    return tuple(model.name for model in engines)


def _sizes(engines: Sequence[ServedModel]) -> str:
    return ", ".join(f"{model.name} has {_ranks(model.ranks)}" for model in engines)


def _ranks(count: int) -> str:
    return f"{count} rank{'' if count == 1 else 's'}"
