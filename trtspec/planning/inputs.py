"""From a spec and its surveys to what a layout depends on: shapes, sizes, length, hardware."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trtspec.checkpoints import Survey
from trtspec.hardware.catalogue import Gpu
from trtspec.planning.fit import PlanInputs
from trtspec.planning.runtime_costs import EngineSizes, engine_sizes
from trtspec.planning.shapes import ModelShape, model_shape
from trtspec.spec import Role, SpecFile
from trtspec.toolchain.sizes import DERIVED_LENGTH, UNKNOWN_LENGTH

__all__ = ["derived_length", "plan_inputs", "role_shapes"]


def derived_length(spec_file: SpecFile, surveys: Mapping[Any, Survey]) -> tuple[int, str]:
    """max_seq_len and why: the spec's, or what both checkpoints have positions for, at most 8192."""
    given = spec_file.spec.build.max_seq_len
    if given is not None:
        return given, "in the spec"
    found = {}
    models = {role: survey for role, survey in surveys.items() if role in spec_file.spec.roles}
    for role, survey in models.items():
        engine = spec_file.given_engine(role)
        if engine is not None:
            sizes = _engine_sizes(engine)
            found[role] = sizes.max_seq_len - sizes.max_draft_len
            continue
        positions = survey.config.usable_positions if survey.config else None
        found[role] = positions or UNKNOWN_LENGTH
    shortest = min(found, key=lambda role: found[role], default=None)
    if shortest is None:
        return UNKNOWN_LENGTH, "no checkpoint names a length"
    if found[shortest] > DERIVED_LENGTH:
        return DERIVED_LENGTH, "the most that is derived; set build.max_seq_len for longer requests"
    return found[shortest], f"positions of the {shortest}"


def role_shapes(spec_file: SpecFile, surveys: Mapping[Any, Survey], *, on_cpu: bool = False) -> dict[Role, ModelShape]:
    """The shape of every role: from a given engine where the spec names one, else from its checkpoint."""
    shapes: dict[Role, ModelShape] = {}
    for role in spec_file.spec.roles:
        engine = spec_file.given_engine(role)
        if engine is not None:
            shapes[role] = _engine_shape(engine)
            continue
        survey = surveys["draft" if role == "draft" else "target"]
        source = spec_file.source(role)
        shapes[role] = model_shape(survey, source, runtime=spec_file.spec.runtime, on_cpu=on_cpu)
    return shapes


def plan_inputs(
    spec_file: SpecFile,
    gpu: Gpu | None,
    surveys: Mapping[Any, Survey],
    *,
    count: int | None = None,
    system_bytes: int | None = None,
) -> PlanInputs:
    """Shapes, sizes and hardware of a spec; `count` GPUs (default: the spec's, else as many as its ranks need)."""
    spec = spec_file.spec
    on_cpu = spec.runtime == "torch" and gpu is None
    shapes = role_shapes(spec_file, surveys, on_cpu=on_cpu)
    length, why = derived_length(spec_file, surveys)
    engines = {role: spec_file.given_engine(role) for role in spec.roles}
    sizes = {
        role: engine_sizes(spec, role, length) if folder is None else _engine_sizes(folder)
        for role, folder in engines.items()
    }
    total = (system_bytes or _system_memory()) if on_cpu else _gpu_bytes(spec_file, gpu)
    return PlanInputs(
        spec=spec,
        shapes=shapes,
        sizes=sizes,
        max_seq_len=length,
        length_why=why,
        gpu_name="system memory" if on_cpu else gpu.name if gpu else "unknown GPU",
        total=total,
        count=0 if on_cpu else count or _count(spec_file),
        sm=gpu.sm if gpu else None,
    )


def _engine_shape(folder: Path) -> ModelShape:
    # reading engines imports half of trtspec.building, which a plan from checkpoints does not need
    from trtspec.planning.engine_shapes import given_engine_shape

    return given_engine_shape(folder)


def _engine_sizes(folder: Path) -> EngineSizes:
    from trtspec.planning.engine_shapes import given_engine_sizes

    return given_engine_sizes(folder)


def _gpu_bytes(spec_file: SpecFile, gpu: Gpu | None) -> int | None:
    hardware = spec_file.spec.hardware
    if hardware is not None and hardware.memory_gib is not None:
        return round(hardware.memory_gib * 2**30)
    return gpu.memory_bytes if gpu else None


def _count(spec_file: SpecFile) -> int:
    spec = spec_file.spec
    if spec.hardware is not None:
        return spec.hardware.count
    named: list[int] = [*(spec.target.gpus or ()), *(spec.draft.gpus or ())]
    ranks = max(spec.target.world_size, spec.draft.world_size)
    return max([ranks, *(gpu + 1 for gpu in named)])


def _system_memory() -> int:
    import psutil

    return int(psutil.virtual_memory().total)
