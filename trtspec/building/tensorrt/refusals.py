"""What forbids a build before a program starts: the pair, missing weights, the disk."""

from __future__ import annotations

from trtspec.building.given import inspect_given
from trtspec.building.inspection.inspect import refuse
from trtspec.building.tensorrt.finding import given_engine_path
from trtspec.building.tensorrt.planning import BuildPlan
from trtspec.building.tensorrt.space import Need, converted_size, engine_size, memory_note, require_space, source_size
from trtspec.building.tensorrt.steps import Product
from trtspec.errors import CheckpointError
from trtspec.rules import require_pair

__all__ = ["memory_notes", "needs", "refuse_given", "refuse_pair", "refuse_space", "refuse_without_weights"]


def refuse_pair(plan: BuildPlan, *, weights: bool) -> None:
    """PairError with every error of `trtspec check` on this machine's GPU; without `weights` those may be missing.

    A spec that gives an engine without a checkpoint has no pair to look at: its engines are inspected.
    """
    spec = plan.spec_file.spec
    if spec.target.checkpoint is not None and (spec.draft.checkpoint is not None or not spec.draft.is_model):
        require_pair(plan.spec_file, weights=weights, gpu=plan.site.gpus.model)


def refuse_given(plan: BuildPlan) -> None:
    """EngineRejected when an engine that the spec names is not what it asks for, ArtefactMissing when it is nowhere."""
    for role, folder in plan.given.items():
        given_engine_path(folder)
        refuse(*inspect_given(plan.spec_file, role))


def refuse_without_weights(plan: BuildPlan) -> None:
    """CheckpointError when weight files that have to be converted are not here."""
    for product in plan.to_make:
        if product.kind == "checkpoint" and (absent := product.identity.absent):
            message = f"{len(absent)} weight files are not here: {', '.join(absent[:3])}"
            fix = "fetch them: hf download ORG/MODEL --local-dir FOLDER; --dry-run works without"
            raise CheckpointError(message, where=str(product.request.folder), fix=fix, code="shards-missing")


def refuse_space(plan: BuildPlan) -> None:
    """BuildError when what is to be made does not fit on the disk."""
    require_space(plan.spec_file.root / "engines", [need for product in plan.to_make for need in needs(product)])


def needs(product: Product) -> list[Need]:
    """Bytes that making `product` writes; empty when nothing tells the size of its weights."""
    request = product.request
    size = source_size(request.folder, product.identity)
    if size is None:
        return []
    size = converted_size(size, request.config, request.quantization, request.tp)
    if product.kind == "engine":
        size = engine_size(size, request.world_size)
    return [Need(product.label, size)]


def memory_notes(plan: BuildPlan) -> list[str]:
    """A warning for each conversion that may not fit into the machine's memory."""
    notes = []
    for product in plan.to_make:
        size = source_size(product.request.folder, product.identity) if product.kind == "checkpoint" else None
        if size is not None and (note := memory_note(product.label, size)):
            notes.append(note)
    return notes
