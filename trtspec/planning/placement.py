"""Which rank lies on which GPU, and how the server processes are started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from trtspec.spec import ModelSource, Spec
from trtspec.spec.names import Arm, Role

__all__ = ["MODEL_ROLES", "Launch", "LaunchMode", "Placement", "RolePlacement", "place"]

LaunchMode = Literal["direct", "leader", "orchestrator"]
MODEL_ROLES: tuple[Role, ...] = ("target", "draft")


@dataclass(frozen=True)
class RolePlacement:
    """The GPUs of a role's ranks, in the order of the ranks (rank = stage × tp + tensor rank)."""

    gpus: tuple[int, ...]
    tp: int
    pp: int

    def ranks_on(self, gpu: int) -> tuple[int, ...]:
        """The ranks on a GPU (one at most, unless the spec names a GPU twice)."""
        return self._by_gpu.get(gpu, ())

    @cached_property
    def _by_gpu(self) -> Mapping[int, tuple[int, ...]]:
        found: dict[int, tuple[int, ...]] = {}
        for rank, gpu in enumerate(self.gpus):
            found[gpu] = (*found.get(gpu, ()), rank)
        return found

    def to_json(self) -> dict[str, Any]:
        """The role as `plan --output json` prints it."""
        return {"gpus": list(self.gpus), "tp": self.tp, "pp": self.pp}


@dataclass(frozen=True)
class Launch:
    """How an arm's server is started.

    direct: one tritonserver process for everything. leader: `world_size` MPI ranks of one model, rank 0 serves.
    orchestrator: rank 0 serves; the workers are further MPI ranks of the same start, or (`spawns`) are started by it,
    and then the start itself is of one rank. `processes` counts all of them. `participant_ids` are the MPI ranks of
    each model, needed only where nothing is spawned.
    """

    mode: LaunchMode
    world_size: int
    processes: int
    spawns: bool
    participant_ids: Mapping[Role, str]
    why: str

    def to_json(self) -> dict[str, Any]:
        """The start as `plan --output json` prints it."""
        return {
            "launch_mode": self.mode,
            "world_size": self.world_size,
            "processes": self.processes,
            "spawns_processes": self.spawns,
            "participant_ids": dict(self.participant_ids) or None,
            "why": self.why,
        }


@dataclass(frozen=True)
class Placement:
    """GPUs of every role, starts of both arms, and what stands against it (`problems`)."""

    roles: Mapping[Role, RolePlacement]
    launches: Mapping[Arm, Launch]
    beside: bool
    why: str
    problems: tuple[str, ...] = ()

    @property
    def launch(self) -> Launch:
        """The start of the speculative arm."""
        return self.launches["speculative"]

    @property
    def gpus(self) -> tuple[int, ...]:
        """Every GPU that a rank lies on, ascending."""
        return tuple(sorted({gpu for role in self.roles.values() for gpu in role.gpus}))

    @property
    def gpu_device_ids(self) -> dict[Role, str]:
        """`gpu_device_ids` of each role's model: its GPUs in the order of its ranks."""
        return {role: ",".join(map(str, placed.gpus)) for role, placed in self.roles.items()}

    @property
    def shared(self) -> tuple[int, ...]:
        """GPUs that hold ranks of both target and draft."""
        draft = self.roles.get("draft")
        return tuple(sorted(set(self.roles["target"].gpus) & set(draft.gpus))) if draft is not None else ()

    @property
    def models(self) -> tuple[Role, ...]:
        """The models of the speculative arm."""
        return tuple(role for role in MODEL_ROLES if role in self.roles)

    def to_json(self) -> dict[str, Any]:
        """The placement as `plan --output json` prints it."""
        return {
            **{role: placed.to_json() for role, placed in self.roles.items()},
            **self.launch.to_json(),
            "baseline_launch": self.launches["baseline"].to_json(),
            "gpu_device_ids": self.gpu_device_ids,
            "draft_beside_target": self.beside,
            "why": self.why,
            "launch_why": self.launch.why,
            "problems": list(self.problems),
        }


def place(spec: Spec, count: int, *, beside: bool = True) -> Placement:
    """Put the ranks of target, draft and baseline on `count` GPUs, numbered from 0.

    GPUs that the spec gives are kept. Otherwise the target takes the first ones, and the draft those of the target
    (`beside`) or the first that the target leaves free. The baseline takes the target's: it is another arm.
    """
    if spec.runtime == "torch":
        return _torch_placement(spec, count)
    if not spec.draft.is_model:
        return _without_draft(spec, count)
    kept = set(spec.draft.gpus or ())
    target = tuple(spec.target.gpus or _first(spec.target.world_size, [*_without(count, kept), *sorted(kept)]))
    draft, beside_target, why = _draft_gpus(spec.draft, target, count, beside=beside)
    roles: dict[Role, RolePlacement] = {
        "target": RolePlacement(target, spec.target.tp, spec.target.pp),
        "draft": RolePlacement(draft, spec.draft.tp, spec.draft.pp),
        "baseline": RolePlacement(target, spec.target.tp, spec.target.pp),
    }
    launches: dict[Arm, Launch] = {"speculative": pair_launch(spec), "baseline": single_launch(spec.target.world_size)}
    return Placement(roles, launches, beside_target, why, tuple(_problems(roles, count)))


def _without_draft(spec: Spec, count: int) -> Placement:
    """The target alone, in both arms."""
    target = RolePlacement(
        tuple(spec.target.gpus or _first(spec.target.world_size, range(count))), spec.target.tp, spec.target.pp
    )
    launch = single_launch(spec.target.world_size)
    roles: dict[Role, RolePlacement] = {"target": target, "baseline": target}
    why = "drafts are looked up in the text: there is no second model"
    return Placement(
        roles, {"speculative": launch, "baseline": launch}, beside=False, why=why,
        problems=tuple(_problems(roles, count)),
    )  # fmt: skip


def _torch_placement(spec: Spec, count: int) -> Placement:
    gpus = (0,) if count else ()
    one = RolePlacement(gpus, 1, 1)
    why = "the torch runtime runs each model in a process of the server"
    launch = Launch("direct", 1, 1, spawns=False, participant_ids={}, why=why)
    roles: dict[Role, RolePlacement] = dict.fromkeys(spec.roles, one)
    where = "the torch runtime uses one device for all models"
    return Placement(roles, {"speculative": launch, "baseline": launch}, beside=True, why=where)


def _draft_gpus(
    draft: ModelSource, target: Sequence[int], count: int, *, beside: bool
) -> tuple[tuple[int, ...], bool, str]:
    """The draft's GPUs, whether it shares one with the target, and why."""
    ranks = draft.world_size
    if draft.gpus is not None:
        shared = bool(set(draft.gpus) & set(target))
        return tuple(draft.gpus), shared, "draft.gpus is given"
    others = _without(count, set(target))
    if beside or not others:
        gpus = _first(ranks, [*target, *others])
        why = "the draft lies beside the target: nothing goes between GPUs in a round, and no GPU is kept for it alone"
        return gpus, True, why if beside else f"{why} (no other GPU is free)"
    gpus = _first(ranks, [*others, *target])
    return gpus, bool(set(gpus) & set(target)), "the draft lies apart from the target: more fits that way"


def _without(count: int, taken: set[int]) -> list[int]:
    return [gpu for gpu in range(count) if gpu not in taken]


def _first(ranks: int, free: Sequence[int]) -> tuple[int, ...]:
    """The first `ranks` of `free`; past them numbers that do not exist, which `_problems` names."""
    beyond = range(max(free, default=-1) + 1, max(free, default=-1) + 1 + ranks)
    return tuple([*free, *beyond][:ranks])


def _problems(roles: Mapping[Role, RolePlacement], count: int) -> list[str]:
    found = []
    for role in (role for role in MODEL_ROLES if role in roles):
        placed = roles[role]
        ranks = placed.tp * placed.pp
        absent = [gpu for gpu in placed.gpus if gpu >= count]
        if ranks > count:
            found.append(f"{role} has {ranks} ranks (tp {placed.tp} × pp {placed.pp}), there are {_gpus(count)}")
        elif absent:
            there = f"there are {_gpus(count)}" + (f", 0 to {count - 1}" if count > 1 else "")
            found.append(f"{role}.gpus names GPU {', '.join(map(str, absent))}; {there}")
    return found


def _gpus(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"


def single_launch(ranks: int) -> Launch:
    """How one model of `ranks` ranks is started: directly, or as leader with one MPI rank each."""
    if ranks == 1:
        return Launch("direct", 1, 1, spawns=False, participant_ids={}, why="one model on one GPU needs no MPI")
    why = f"one model of {ranks} ranks: leader mode, one MPI rank each, rank 0 serves"
    return Launch("leader", ranks, ranks, spawns=False, participant_ids={}, why=why)


def pair_launch(spec: Spec) -> Launch:
    """How target and draft are started together.

    Two single ranks run in one process. Otherwise leader mode cannot serve (it wants all models in one world), so
    an orchestrator spawns the workers. Fast logits (with acceptance by logits only) need an orchestrator that does not
    spawn: 1 rank for itself, then the draft's, then the target's (TensorRT-LLM examples/draft_target_model/README.md;
    tensorrtllm_backend docs on model configuration).
    """
    draft, target = spec.draft.world_size, spec.target.world_size
    total = 1 + draft + target
    if spec.serving.fast_logits and spec.speculation.acceptance == "logits":
        ids: dict[Role, str] = {"draft": _ids(1, draft), "target": _ids(1 + draft, target)}
        why = f"fast logits: an orchestrator without spawning, 1 + {draft} draft + {target} target ranks"
        return Launch("orchestrator", total, total, spawns=False, participant_ids=ids, why=why)
    if draft == target == 1:
        why = "both engines have one rank: one server process holds them, without MPI"
        return Launch("direct", 1, 1, spawns=False, participant_ids={}, why=why)
    kind = "of different size" if draft != target else "of several ranks each"
    why = f"two models {kind} ({target} target, {draft} draft ranks): the orchestrator spawns a process for each rank"
    return Launch("orchestrator", 1, total, spawns=True, participant_ids={}, why=why)


def _ids(start: int, count: int) -> str:
    return ",".join(str(rank) for rank in range(start, start + count))
