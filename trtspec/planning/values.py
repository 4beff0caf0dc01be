"""Where every value of a plan comes from: given in the spec, a default, or derived from something else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from trtspec.planning.memory import MemoryPlan
from trtspec.planning.runtime_costs import EngineSizes
from trtspec.spec import Role, Spec, SpecFile

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["Origin", "value_origins"]

Origin = Literal["given", "default", "derived"]
Row = dict[str, Any]


def value_origins(spec_file: SpecFile, plan: MemoryPlan | None) -> dict[str, Row]:
    """Dotted key → {"value", "origin": given | default | derived, "why"}, in the order of the spec.

    Keys below `engines.` are no fields of the spec: what is written into the engines and configured for the server.
    Without a plan (a checkpoint that cannot be read) only what needs none is derived.
    """
    spec = spec_file.spec
    rows = dict(_fields(spec, ""))
    if spec.hardware is None:
        rows.pop("hardware", None)
    derived = {**_from_spec(spec), **(_from_plan(spec, plan) if plan is not None else {})}
    for key, (value, why) in derived.items():
        if key not in rows or rows[key]["origin"] != "given" or rows[key]["value"] in (None, "auto"):
            rows[key] = _row(value, "derived", why)
    return rows


def _row(value: Any, origin: Origin, why: str) -> Row:
    return {"value": value, "origin": origin, "why": why}


def _fields(model: BaseModel, prefix: str) -> Iterator[tuple[str, Row]]:
    """A row for each field of the spec, sections opened."""
    from pydantic import BaseModel

    for name in type(model).model_fields:
        key, value = f"{prefix}{name}", getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _fields(value, f"{key}.")
        elif name in model.model_fields_set:
            yield key, _row(_plain(value), "given", "in the spec")
        else:
            yield key, _row(_plain(value), "default", "not in the spec")


def _plain(value: Any) -> Any:
    """`value` as JSON can hold it."""
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, (list, tuple)) else value


def _from_spec(spec: Spec) -> dict[str, tuple[Any, str]]:
    limit = spec.speculation.engine_draft_length
    found: dict[str, tuple[Any, str]] = {
        "speculation.max_draft_length": (limit, f"the larger of 8 and draft_length {spec.speculation.draft_length}"),
    }
    if spec.lookup_length is not None:
        found["draft.lookup_length"] = (spec.lookup_length, "speculation.max_draft_length")
    return found


def _from_plan(spec: Spec, plan: MemoryPlan) -> dict[str, tuple[Any, str]]:
    found: dict[str, tuple[Any, str]] = {}
    length = plan.inputs.max_seq_len
    found["build.max_seq_len"] = (length, plan.inputs.length_why)
    if spec.runtime == "tensorrt_llm":
        found["build.max_input_len"] = (length - 1, "max_seq_len - 1: one token of an answer at least")
        found["build.logits_dtype"] = ("float32", "TensorRT-LLM's own")
    for section in plan.placement.models:
        found.update(_model_values(spec, plan, section))
    if spec.hardware is None and plan.inputs.total is not None:
        found["hardware.gpu"] = (plan.inputs.gpu_name, "found on this machine")
        found["hardware.count"] = (plan.inputs.count, "found on this machine")
    for role in spec.roles:
        found.update(_engine_values(plan, role))
    if spec.runtime == "tensorrt_llm":
        launch = plan.placement.launch
        found["serving.launch_mode"] = (launch.mode, launch.why)
        found["serving.world_size"] = (launch.world_size, launch.why)
    return found


def _model_values(spec: Spec, plan: MemoryPlan, section: str) -> Iterator[tuple[str, tuple[Any, str]]]:
    role: Role = "draft" if section == "draft" else "target"
    shape, source = plan.inputs.shapes[role], spec.draft if section == "draft" else spec.target
    where = "of the engine" if shape.origin == "engine" else "of the checkpoint"
    yield f"{section}.dtype", (shape.dtype, f"the type {where}" if spec.runtime != "torch" else "of the torch runtime")
    if spec.runtime != "tensorrt_llm":
        return
    yield f"{section}.kv_cache_dtype", (shape.kv.dtype, f"as the checkpoint asks, else its type ({shape.dtype})")
    if source.quantization == "none" and shape.quantization != "none":
        yield f"{section}.quantization", (shape.quantization, f"the weights {where} are quantized so")
    yield f"{section}.gpus", (list(plan.placement.roles[role].gpus), plan.placement.why)


_ONE_STEP = "{asked} asked for; at most max_batch_size {batch} × max_seq_len"
# why config.json says so: of a target, and of an engine without draft tokens
_WRITTEN = {
    "max_seq_len": ("max_seq_len + {drafts}: the builder adds max_draft_length to a target", "build.max_seq_len"),
    "max_num_tokens": (f"{_ONE_STEP}, at least {{batch}} × ({{drafts}} + 1)", _ONE_STEP),
    "max_draft_len": ("speculation.max_draft_length", "only a target takes draft tokens"),
    "max_batch_size": ("build.max_batch_size", "build.max_batch_size"),
}  # fmt: skip


def _engine_values(plan: MemoryPlan, role: Role) -> Iterator[tuple[str, tuple[Any, str]]]:
    """What config.json of the engine will say, and its share of the memory."""
    sizes: EngineSizes = plan.inputs.sizes[role]
    given = plan.inputs.shapes[role].origin == "engine"
    asked = plan.inputs.spec.build.max_num_tokens
    for name, texts in _WRITTEN.items():
        text = texts[0] if sizes.max_draft_len else texts[1]
        why = text.format(asked=asked, drafts=sizes.max_draft_len, batch=sizes.max_batch_size)
        yield f"engines.{role}.{name}", (getattr(sizes, name), "of the engine that is given" if given else why)
    if plan.inputs.spec.runtime == "torch":
        return
    cache = plan.kv_cache[role]
    if cache.max_tokens is not None:
        tokens = "what fits into nine tenths of the memory that is left"
        tokens += "" if role == "baseline" else ", the same for draft and target"
        yield f"engines.{role}.max_tokens_in_paged_kv_cache", (cache.max_tokens, tokens)
    if cache.fraction_any_order is not None:
        why = "KV bytes / bytes free when it is loaded"
        if role != "baseline":
            why += (
                f", enough in any order as the cap binds; {cache.fraction} in the order {' → '.join(plan.load_order)}"
            )
        yield f"engines.{role}.kv_cache_free_gpu_mem_fraction", (cache.fraction_any_order, why)
