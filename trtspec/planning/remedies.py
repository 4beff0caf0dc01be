"""What to change when an arm does not fit, each change planned again before it is proposed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from trtspec.planning.fit import PlanInputs
from trtspec.planning.items import ArmMemory
from trtspec.planning.kv import KvLayout
from trtspec.planning.placement import MODEL_ROLES
from trtspec.planning.runtime_costs import engine_sizes
from trtspec.planning.shapes import ModelShape
from trtspec.spec import Spec
from trtspec.spec.names import Role

__all__ = ["Remedy", "find_remedies"]

Plan = Callable[[PlanInputs], ArmMemory]  # the speculative arm, `fits` only when the baseline does as well
Changes = Mapping[str, Any]  # dotted key of the spec → new value

_FP8_SM, _NVFP4_SM, _INT4_SM = 89, 100, 80
_BLACKWELL = (100, 120)  # the builder refuses int4 weights there (tensorrt_llm/builder.py)
_FP8_KV_WEIGHTS = ("fp8", "w4a8_awq", "nvfp4")
_MOST = 6
_PAIRED = 8  # of the changes that free most, pairs are tried


@dataclass(frozen=True)
class Remedy:
    """A change of the spec, planned again: bytes that it frees on the fullest GPU, and what fits then."""

    changes: Changes
    frees: int
    fits: bool
    concurrent: int | None
    needs: str | None = None

    @property
    def text(self) -> str:
        """The change as it would be written, e.g. `target.quantization: fp8`."""
        return ", ".join(f"{key}: {value}" for key, value in self.changes.items())

    def to_json(self) -> dict[str, Any]:
        """The change as `plan --output json` prints it."""
        return {
            "changes": dict(self.changes),
            "frees_bytes": self.frees,
            "fits": self.fits,
            "max_concurrent_sequences": self.concurrent,
            "needs": self.needs,
        }


@dataclass(frozen=True)
class _Candidate:
    changes: Changes
    needs: str | None = None


def find_remedies(
    inputs: PlanInputs, arm: ArmMemory, plan: Plan, allowed: Callable[[Spec], bool]
) -> tuple[Remedy, ...]:
    """Changes that help an arm that does not fit or has room for too few sequences, the best first.

    Those that make it fit come first; where no single change does, pairs of them. Empty when everything fits. A change
    whose spec is not `allowed` (a quantization that the family lacks, ranks that do not divide) is left out.
    """
    if not _short(inputs, arm):
        return ()
    candidates = tuple(item for item in _candidates(inputs) if allowed(_edited(inputs.spec, item.changes)))
    tried = [_try(inputs, arm, plan, candidate) for candidate in candidates]
    found = [remedy for remedy in tried if _helps(arm, remedy)]
    if not any(remedy.fits for remedy in found) and not arm.fits:
        best = sorted(zip(tried, candidates, strict=True), key=lambda item: -item[0].frees)[:_PAIRED]
        pairs = combinations((candidate for _, candidate in best), 2)
        joined = (_joined(one, two) for one, two in pairs if not one.changes.keys() & two.changes)
        possible = (pair for pair in joined if allowed(_edited(inputs.spec, pair.changes)))
        found += [remedy for pair in possible if (remedy := _try(inputs, arm, plan, pair)).fits]
    fitting = [remedy for remedy in found if remedy.fits]
    return tuple(sorted(fitting or found, key=_rank)[:_MOST])


def _rank(remedy: Remedy) -> tuple[bool, bool, int, bool, int]:
    """Order of proposals: what fits, needs no more GPUs, gives more room, keeps the precision, changes less."""
    more_gpus = "hardware.count" in remedy.changes
    gain = remedy.concurrent or 0 if remedy.fits else remedy.frees
    coarser = any(key.endswith((".quantization", ".kv_cache_dtype")) for key in remedy.changes)
    return not remedy.fits, more_gpus and remedy.fits, -gain, coarser, len(remedy.changes)


def _short(inputs: PlanInputs, arm: ArmMemory) -> bool:
    """True when the arm does not fit, or cannot hold max_batch_size sequences of the expected length at once."""
    at_once = arm.limits.max_concurrent_sequences
    longest = arm.limits.rooms[-1].by_memory
    return not arm.fits or longest == 0 or (at_once or 0) < min(size.max_batch_size for size in inputs.sizes.values())


def _helps(arm: ArmMemory, remedy: Remedy) -> bool:
    if arm.fits:
        return remedy.fits and (remedy.concurrent or 0) > (arm.limits.max_concurrent_sequences or 0)
    return remedy.frees > 0 or remedy.fits


def _joined(one: _Candidate, two: _Candidate) -> _Candidate:
    needs = "; ".join(part for part in (one.needs, two.needs) if part) or None
    return _Candidate({**one.changes, **two.changes}, needs)


def _try(inputs: PlanInputs, before: ArmMemory, plan: Plan, candidate: _Candidate) -> Remedy:
    after = plan(_changed(inputs, candidate.changes))
    frees = before.tightest.fixed - after.tightest.fixed
    at_once = after.limits.max_concurrent_sequences
    fits = bool(after.fits) and (at_once or 0) > 0
    return Remedy(candidate.changes, frees, fits, at_once, candidate.needs)


def _candidates(inputs: PlanInputs) -> Iterator[_Candidate]:
    yield from _sizes(inputs)
    if inputs.spec.runtime == "tensorrt_llm":
        yield from _precision(inputs)
        yield from _places(inputs)


def _sizes(inputs: PlanInputs) -> Iterator[_Candidate]:
    build, spec = inputs.spec.build, inputs.spec
    for batch in sorted({build.max_batch_size // 2, build.max_batch_size // 4, 8, 1}, reverse=True):
        if 0 < batch < build.max_batch_size:
            yield _Candidate({"build.max_batch_size": batch})
    if build.max_num_tokens > 2048:
        yield _Candidate({"build.max_num_tokens": 2048})
    expected = spec.expectations.prompt_tokens + spec.expectations.output_tokens
    shorter = -(-expected // 256) * 256
    if shorter < inputs.max_seq_len:
        needs = f"no request of more than {shorter} tokens"
        yield _Candidate({"build.max_seq_len": shorter}, needs)
    if spec.speculation.engine_draft_length > spec.speculation.draft_length:
        length = spec.speculation.draft_length
        yield _Candidate({"speculation.max_draft_length": length}, f"never more than {length} drafted tokens")


def _precision(inputs: PlanInputs) -> Iterator[_Candidate]:
    sm = inputs.sm
    for role in (role for role in MODEL_ROLES if role in inputs.shapes):
        shape = inputs.shapes[role]
        if shape.origin == "engine":
            continue
        if shape.quantization == "none" and shape.stored is None:
            for name, least in (("fp8", _FP8_SM), ("nvfp4", _NVFP4_SM), ("int4_awq", _INT4_SM)):
                if sm is not None and sm >= least and not (name == "int4_awq" and _BLACKWELL[0] <= sm < _BLACKWELL[1]):
                    yield _Candidate({f"{role}.quantization": name})
        full = shape.kv.element_bytes > 1
        if full and shape.quantization in _FP8_KV_WEIGHTS and sm is not None and sm >= _FP8_SM:
            yield _Candidate({f"{role}.kv_cache_dtype": "fp8"})
        if full and shape.quantization == "none" and shape.stored is None and sm is not None and sm >= _FP8_SM:
            yield _Candidate({f"{role}.quantization": "fp8", f"{role}.kv_cache_dtype": "fp8"})


def _places(inputs: PlanInputs) -> Iterator[_Candidate]:
    spec, shape = inputs.spec, inputs.shapes["target"]
    if shape.origin == "engine":
        return
    if shape.world_size > inputs.count:
        yield _Candidate({"hardware.count": shape.world_size}, f"{shape.world_size} GPUs")
    for tp in (1, 2, 4, 8):
        smaller = tp < shape.tp and shape.world_size <= inputs.count
        if tp == shape.tp or smaller or shape.heads % tp or shape.intermediate % tp:
            continue
        ranks = tp * shape.pp
        changes: dict[str, Any] = {"target.tp": tp}
        if ranks > inputs.count:
            changes["hardware.count"] = ranks
        yield _Candidate(changes, f"{ranks} GPUs" if ranks > inputs.count else None)
    one = spec.draft.is_model and spec.draft.world_size == 1
    if one and spec.draft.gpus is None and spec.target.gpus is None:
        apart = spec.target.world_size
        more = {"hardware.count": apart + 1} if apart >= inputs.count else {}
        yield _Candidate({"draft.gpus": [apart], **more}, f"{apart + 1} GPUs" if more else None)


def _changed(inputs: PlanInputs, changes: Changes) -> PlanInputs:
    """The inputs of the spec with `changes`; nothing is read again."""
    spec = _edited(inputs.spec, changes)
    length = changes.get("build.max_seq_len", inputs.max_seq_len)
    shapes = {role: _reshaped(shape, spec, role, changes) for role, shape in inputs.shapes.items()}
    sizes = {
        role: old if inputs.shapes[role].origin == "engine" else engine_sizes(spec, role, length)
        for role, old in inputs.sizes.items()
    }
    count = changes.get("hardware.count", inputs.count)
    return replace(inputs, spec=spec, shapes=shapes, sizes=sizes, max_seq_len=length, count=count)


def _edited(spec: Spec, changes: Changes) -> Spec:
    updates: dict[str, dict[str, Any]] = {}
    for key, value in changes.items():
        section, _, name = key.partition(".")
        updates.setdefault(section, {})[name] = value
    if "tp" in updates.get("target", {}):
        updates["target"]["gpus"] = None
    sections = {
        name: getattr(spec, name).model_copy(update=values)
        for name, values in updates.items()
        if getattr(spec, name) is not None
    }
    return spec.model_copy(update=sections)


def _reshaped(shape: ModelShape, spec: Spec, role: Role, changes: Changes) -> ModelShape:
    section = "draft" if role == "draft" else "target"
    if shape.origin == "engine":
        return shape
    source = spec.draft if section == "draft" else spec.target
    kv_dtype = changes.get(f"{section}.kv_cache_dtype", shape.kv.dtype)
    return replace(
        shape,
        quantization=changes.get(f"{section}.quantization", shape.quantization),
        tp=source.tp,
        kv=_retyped(shape.kv, kv_dtype),
    )


def _retyped(kv: KvLayout, dtype: str) -> KvLayout:
    return kv if kv.dtype == dtype else replace(kv, dtype=dtype)
