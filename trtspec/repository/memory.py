"""GPUs, ranks and KV caches of an arm's engines: the memory plan made for the engines as they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from trtspec.errors import ArtefactMissing, BuildError, CheckpointError, PairError
from trtspec.planning.items import ArmMemory
from trtspec.planning.memory import MemoryPlan, memory_plan
from trtspec.planning.options import chosen_gpu
from trtspec.planning.placement import Launch, Placement, place
from trtspec.repository.tensorrt_engines import ServedEngine, read_engines
from trtspec.rules import check_pair
from trtspec.spec import Arm, ModelSource, Role, Spec, SpecFile
from trtspec.spec.model import BaselineEngine
from trtspec.units import bytes_text

__all__ = ["CacheSize", "Deployment", "arms_plan", "plan_deployment"]

_SHARE = 0.9  # of free memory, TensorRT-LLM's default, split among the models of a GPU of unknown size
_BLOCK = 32


@dataclass(frozen=True)
class CacheSize:
    """The KV cache of a model: `max_tokens` binds, `fraction` of the free memory is enough for it; and why these."""

    max_tokens: int
    fraction: float
    why: str


@dataclass(frozen=True)
class Deployment:
    """Where the engines of the arms lie, how they are started, and the caches of each role."""

    placement: Placement
    caches: Mapping[Role, CacheSize]
    gpu: str | None
    notes: tuple[str, ...] = ()

    def launch(self, arm: Arm) -> Launch:
        """How the server of an arm is started."""
        return self.placement.launches[arm]


def plan_deployment(spec_file: SpecFile, engines: Mapping[Role, ServedEngine], arms: tuple[Arm, ...]) -> Deployment:
    """Plan `arms` on the GPUs of the spec, else those of this machine.

    With neither, KV caches are capped at every sequence of the batch in full length. PairError when an arm does not
    fit on the GPUs that are known.
    """
    try:
        plan = _engines_plan(spec_file, engines)
    except (BuildError, CheckpointError) as error:
        changed, count = _with_engines(spec_file, engines), chosen_gpu(spec_file)[1]
        placement = place(changed.spec, count or _gpus_of(changed.spec))
        why = f"their memory cannot be planned: {error.message}"
        return Deployment(placement, _unplanned(spec_file.spec, engines, arms, placement), None, (why,))
    if plan.inputs.total is None:
        why = "no GPU is known: set hardware.gpu in the spec, or generate on the machine that serves"
        return Deployment(
            plan.placement, _unplanned(spec_file.spec, engines, arms, plan.placement), None, (_unknown(why),)
        )
    _refuse_what_does_not_fit(spec_file, plan, arms)
    caches = {role: _planned(plan, arm, role) for arm in arms for role in spec_file.spec.models(arm).values()}
    return Deployment(plan.placement, caches, f"{plan.inputs.count} × {plan.inputs.gpu_name}")


def arms_plan(spec_file: SpecFile) -> MemoryPlan:
    """The memory of both arms: with the engines, as in their repositories; before these are built, by checkpoints."""
    try:
        engines, _ = read_engines(spec_file, spec_file.spec.roles)
    except ArtefactMissing:
        gpu, count = chosen_gpu(spec_file)
        return memory_plan(spec_file, gpu, check_pair(spec_file, weights=False).facts.surveys, count=count)
    return _engines_plan(spec_file, engines)


def _engines_plan(spec_file: SpecFile, engines: Mapping[Role, ServedEngine]) -> MemoryPlan:
    gpu, count = chosen_gpu(spec_file)
    return memory_plan(_with_engines(spec_file, engines), gpu, {}, count=count)


def _unknown(why: str) -> str:
    return f"{why}; until then KV caches are capped by tokens alone, which nobody has compared with the memory"


def _with_engines(spec_file: SpecFile, engines: Mapping[Role, ServedEngine]) -> SpecFile:
    """The spec with every engine given as it lies there; a role that is not served stands for one that is."""
    spec = spec_file.spec
    some = next(iter(engines.values()))
    found = {role: engines.get(role) or engines.get("target") or some for role in spec.roles}
    length = min(engine.request_tokens for engine in engines.values())
    changed = spec.model_copy(
        update={
            "target": _as_engine(spec.target, found["target"]),
            "draft": _as_engine(spec.draft, found["draft"]) if "draft" in found else spec.draft,
            "baseline": BaselineEngine(engine=found["baseline"].path),
            "build": spec.build.model_copy(update={"max_seq_len": length}),
        }
    )
    return SpecFile(spec_file.path, changed)


def _as_engine(source: ModelSource, engine: ServedEngine) -> ModelSource:
    return source.model_copy(update={"engine": engine.path})


def _gpus_of(spec: Spec) -> int:
    named = [gpu + 1 for source in (spec.target, spec.draft) for gpu in source.gpus or ()]
    return max([spec.target.world_size, spec.draft.world_size, *named])


def _refuse_what_does_not_fit(spec_file: SpecFile, plan: MemoryPlan, arms: tuple[Arm, ...]) -> None:
    problems = list(plan.placement.problems)
    if not problems:
        short = [arm for arm in arms if plan.arm(arm).fits is False]
        problems = [f"the {arm} arm does not fit on {_tightest(plan.arm(arm))}" for arm in short]
    if problems:
        raise PairError("; ".join(problems), fix=f"trtspec plan {spec_file.path} shows what would fit")


def _tightest(memory: ArmMemory) -> str:
    gpu = memory.tightest
    total = bytes_text(gpu.total or 0)
    return f"GPU {gpu.gpu} ({gpu.name}, {total}): {bytes_text(gpu.fixed)} are needed before any keys and values"


def _planned(plan: MemoryPlan, arm: Arm, role: Role) -> CacheSize:
    cache = plan.arm(arm).kv_cache[role]
    assert cache.max_tokens is not None  # the GPUs are known, and the arm fits
    fraction = cache.fraction_any_order if cache.fraction_any_order is not None else _SHARE
    room = bytes_text(cache.max_tokens * cache.bytes_per_token)
    return CacheSize(cache.max_tokens, fraction, f"{room} by the memory plan; the fraction holds in any load order")


def _unplanned(
    spec: Spec, engines: Mapping[Role, ServedEngine], arms: tuple[Arm, ...], placement: Placement
) -> dict[Role, CacheSize]:
    sizes = {}
    for arm in arms:
        roles = tuple(spec.models(arm).values())
        shared = len(roles) > 1 and bool(placement.shared)
        for role in roles:
            config = engines[role].config
            block = config.tokens_per_block or _BLOCK
            tokens = config.max_batch_size * math.ceil(config.max_seq_len / block) * block
            reason = f"{config.max_batch_size} sequences × {config.max_seq_len} tokens, nothing known of the memory"
            sizes[role] = CacheSize(tokens, _SHARE / len(roles) if shared else _SHARE, reason)
    return sizes
