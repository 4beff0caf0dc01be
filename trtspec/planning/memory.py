"""`memory_plan`: what lies where in both arms, what fits, and what to change when it does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from trtspec.checkpoints import Survey
from trtspec.errors import Problem, SpecError
from trtspec.hardware.catalogue import GPUS, Gpu
from trtspec.planning.fit import LOAD_ORDERS, Load, LoadOutcome, PlanInputs, fit_arm, simulate_load
from trtspec.planning.inputs import plan_inputs
from trtspec.planning.items import ArmMemory, GpuMemory, Item, KvCache, Limits
from trtspec.planning.placement import Placement, place
from trtspec.planning.remedies import Remedy, find_remedies
from trtspec.planning.runtime_costs import host_items
from trtspec.planning.torch_memory import fit_torch_arm
from trtspec.spec import Role, Spec, SpecFile
from trtspec.spec.names import ARMS, SPECULATIVE, Arm

__all__ = ["Allowed", "MemoryPlan", "best_placement", "memory_plan"]

# whether a changed spec, or the same on another GPU, can be built: no rule refuses it
Allowed = Callable[[Spec, Gpu | None], bool]
_DEFAULT_FRACTION = 0.9  # kv_cache_free_gpu_mem_fraction where nothing is configured


@dataclass(frozen=True)
class MemoryPlan:
    """The memory of both arms and all that was decided on the way.

    `default_orders` is what the two load orders give when both models ask for TensorRT-LLM's default fraction.
    `candidates` are the catalogue's smallest GPUs that would do, given when no GPU is named. `host` are items in
    system memory. `both_arms_free` is what is left on the fullest GPU when both arms run at once, as a load test
    wants it, before keys and values.
    """

    inputs: PlanInputs
    placement: Placement
    speculative: ArmMemory
    baseline: ArmMemory
    host: tuple[Item, ...]
    default_orders: Mapping[tuple[Role, ...], tuple[LoadOutcome, ...]]
    both_arms_free: int | None
    remedies: tuple[Remedy, ...]
    candidates: tuple[str, ...] = ()
    note: str | None = None

    @property
    def per_gpu(self) -> tuple[GpuMemory, ...]:
        """The GPUs of the speculative arm."""
        return self.speculative.per_gpu

    @property
    def kv_cache(self) -> dict[Role, KvCache]:
        """The caches of every role."""
        return {**self.speculative.kv_cache, **self.baseline.kv_cache}

    @property
    def limits(self) -> Limits:
        """What the speculative arm can take."""
        return self.speculative.limits

    @property
    def load_order(self) -> tuple[Role, ...]:
        """The planned order of loading in the speculative arm."""
        return self.speculative.load_order

    @property
    def fits(self) -> bool | None:
        """Whether both arms fit (each alone); None for a GPU that is not known."""
        if self.speculative.fits is None or self.baseline.fits is None:
            return None
        return self.speculative.fits and self.baseline.fits

    def arm(self, arm: Arm) -> ArmMemory:
        """One arm."""
        return self.speculative if arm == "speculative" else self.baseline

    def to_json(self) -> dict[str, Any]:
        """The section `memory` of `plan --output json`."""
        return {
            **self.speculative.to_json(),
            "kv_cache": {role: cache.to_json() for role, cache in self.kv_cache.items()},
            "baseline": self.baseline.to_json(),
            "fits": self.fits,
            "host": [item.to_json() for item in self.host],
            "default_fractions": [_outcomes(order, found) for order, found in self.default_orders.items()],
            "both_arms_free_bytes": self.both_arms_free,
            "remedies": [remedy.to_json() for remedy in self.remedies],
            "candidates": list(self.candidates),
            "note": self.note,
        }


def _outcomes(order: tuple[Role, ...], found: tuple[LoadOutcome, ...]) -> dict[str, Any]:
    return {
        "load_order": list(order),
        "fraction": _DEFAULT_FRACTION,
        "models": [{"role": item.role, "free_bytes": item.free, "kv_bytes": item.kv_bytes} for item in found],
    }


def memory_plan(  # noqa: PLR0913 - all that a plan of the memory depends on, by name
    spec_file: SpecFile,
    gpu: Gpu | None,
    surveys: Mapping[Any, Survey],
    *,
    count: int | None = None,
    system_bytes: int | None = None,
    allowed: Allowed = lambda _spec, _gpu: True,
) -> MemoryPlan:
    """Plan the memory of both arms.

    `gpu` None: for the torch runtime the system's memory (`system_bytes`, default: this machine's) is planned; for
    TensorRT-LLM only what depends on no GPU, and the catalogue's GPUs that would do. Changes and GPUs are proposed
    only where they are `allowed`.
    CheckpointError or BuildError when a checkpoint or an engine does not say enough.
    """
    inputs = plan_inputs(spec_file, gpu, surveys, count=count, system_bytes=system_bytes)
    _refuse_broken(spec_file, inputs)
    if inputs.spec.runtime == "torch":
        return _torch_plan(inputs, on_cpu=gpu is None)
    placement, speculative = best_placement(inputs)
    baseline = fit_arm(inputs, placement, "baseline")
    plan = MemoryPlan(
        inputs=inputs,
        placement=placement,
        speculative=speculative,
        baseline=baseline,
        host=host_items(_PYTHON_MODELS),
        default_orders=_default_orders(inputs, placement, speculative),
        both_arms_free=_both_arms(speculative, baseline),
        remedies=(),
    )
    if inputs.total is None:
        note = "no GPU is named (hardware.gpu) and none was found: sizes only"
        return replace(plan, candidates=_candidates(inputs, allowed), note=note)
    arms = _both(speculative, baseline)
    found = find_remedies(inputs, arms, _engines_again, lambda spec: allowed(spec, gpu))
    return replace(plan, remedies=found)


_PYTHON_MODELS = 1  # our frontend is one process that serves all requests; the engines are no Python models


def _refuse_broken(spec_file: SpecFile, inputs: PlanInputs) -> None:
    """SpecError for more pipeline stages than a model has layers."""
    problems = [
        Problem(f"{role}.pp", f"{shape.pp} stages, the model has {shape.layers} layers")
        for role, shape in inputs.shapes.items()
        if role != "baseline" and shape.pp > shape.layers
    ]
    if problems:
        raise SpecError(str(spec_file.path), problems)


def _engines_again(changed: PlanInputs) -> ArmMemory:
    placement, speculative = best_placement(changed)
    return _both(speculative, fit_arm(changed, placement, "baseline"))


def _both(speculative: ArmMemory, baseline: ArmMemory) -> ArmMemory:
    """The speculative arm, said to fit only when the baseline does too."""
    return replace(speculative, fits=speculative.fits and baseline.fits)


def _torch_plan(inputs: PlanInputs, *, on_cpu: bool) -> MemoryPlan:
    speculative = fit_torch_arm(inputs, "speculative", on_cpu=on_cpu)
    baseline = fit_torch_arm(inputs, "baseline", on_cpu=on_cpu)

    def again(changed: PlanInputs) -> ArmMemory:
        arms = (fit_torch_arm(changed, arm, on_cpu=on_cpu) for arm in ARMS)
        return _both(*arms)

    return MemoryPlan(
        inputs=inputs,
        placement=place(inputs.spec, inputs.count),
        speculative=speculative,
        baseline=baseline,
        host=host_items(len(inputs.spec.models(SPECULATIVE)) + 1),  # the leaves and the frontend are Python models
        default_orders={},
        both_arms_free=_both_arms(speculative, baseline),
        remedies=find_remedies(inputs, _both(speculative, baseline), again, lambda _spec: True),
        note="no GPU: planned against this machine's memory" if on_cpu else None,
    )


def best_placement(inputs: PlanInputs) -> tuple[Placement, ArmMemory]:
    """The draft beside the target, unless it fits only apart, or apart more sequences fit than beside.

    Beside is preferred: NVIDIA reports draft and target on one GPU as often faster
    (TensorRT-LLM examples/draft_target_model/README.md).
    """
    beside = place(inputs.spec, inputs.count)
    first = fit_arm(inputs, beside, "speculative")
    free = inputs.count > len(beside.roles["target"].gpus)
    draft = inputs.spec.draft
    if not draft.is_model or draft.gpus is not None or not free or inputs.total is None:
        return beside, first
    apart = place(inputs.spec, inputs.count, beside=False)
    second = fit_arm(inputs, apart, "speculative")
    return (apart, second) if _worth(second) > _worth(first) else (beside, first)


def _worth(arm: ArmMemory) -> tuple[bool, int]:
    return bool(arm.fits), arm.limits.max_concurrent_sequences or 0


def _default_orders(
    inputs: PlanInputs, placement: Placement, arm: ArmMemory
) -> dict[tuple[Role, ...], tuple[LoadOutcome, ...]]:
    """Both load orders on the fullest shared GPU when each model asks for the default fraction."""
    shared = [gpu for gpu in arm.per_gpu if gpu.gpu in placement.shared]
    if not shared or inputs.total is None:
        return {}
    gpu = max(shared, key=lambda item: item.fixed)
    free = inputs.total - gpu.of("server")
    return {
        order: simulate_load(
            free, [Load(role, gpu.of(role) - gpu.of(role, "kv_cache"), _DEFAULT_FRACTION) for role in order]
        )
        for order in LOAD_ORDERS
    }


def _both_arms(speculative: ArmMemory, baseline: ArmMemory) -> int | None:
    """Bytes left on the fullest GPU when both arms run at once, before any keys and values; None when unknown."""
    other = {gpu.gpu: gpu for gpu in baseline.per_gpu}
    left = [
        gpu.total - gpu.fixed - (other[gpu.gpu].fixed if gpu.gpu in other else 0)
        for gpu in speculative.per_gpu
        if gpu.total is not None
    ]
    return min(left) if left else None


def _candidates(inputs: PlanInputs, allowed: Allowed) -> tuple[str, ...]:
    """The catalogue's smallest GPUs that are allowed, three at most, of which as many as there are ranks would do."""
    found = []
    for gpu in sorted(GPUS, key=lambda item: item.memory_bytes):
        if gpu.sm < 80 or not allowed(inputs.spec, gpu):
            continue
        _, arm = best_placement(replace(inputs, total=gpu.memory_bytes, gpu_name=gpu.name, sm=gpu.sm))
        if arm.fits and (arm.limits.max_concurrent_sequences or 0) > 0:
            found.append(f"{inputs.count} × {gpu.name}")
    return tuple(found[:3])
