"""Building engines: content-addressed, atomic, cached; what is done depends on the spec's runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trtspec.building.built import BuildSettings, BuiltEngine
from trtspec.progress import Reporter, SilentReporter
from trtspec.spec import Role, SpecFile

__all__ = ["BuildSettings", "BuiltEngine", "build_engines", "build_preview", "engine_path", "planned_steps"]


def build_engines(
    spec_file: SpecFile,
    roles: Sequence[Role] | None = None,
    *,
    force: bool = False,
    reporter: Reporter | None = None,
    settings: BuildSettings | None = None,
) -> list[BuiltEngine]:
    """The engines of `roles` (default: all that the spec has), each found finished or built now.

    All checkpoints are examined before anything is written (CheckpointError). An engine folder appears whole or not
    at all; two builds of one engine at once wait for each other. BuildError for what goes wrong while building.
    `settings` replaces `force` by all that can be set.
    """
    chosen, listener = settings or BuildSettings(force=force), reporter or SilentReporter()
    roles = spec_file.spec.roles if roles is None else roles
    if spec_file.spec.runtime == "torch":
        from trtspec.building.torch_engines import build_torch_engines

        return build_torch_engines(spec_file, roles, force=chosen.force, reporter=listener)
    from trtspec.building.tensorrt.pipeline import build_tensorrt_engines

    return build_tensorrt_engines(spec_file, roles, chosen, listener)


def engine_path(spec_file: SpecFile, role: Role) -> Path:
    """Folder of the finished engine for the spec as it is now; ArtefactMissing when it has to be built.

    An engine that the spec names itself is returned as it is.
    """
    if spec_file.spec.runtime == "torch":
        from trtspec.building.torch_engines import torch_engine_path

        return torch_engine_path(spec_file, role)
    from trtspec.building.tensorrt.finding import tensorrt_engine_path

    return tensorrt_engine_path(spec_file, role)


def planned_steps(
    spec_file: SpecFile, roles: Sequence[Role], *, force: bool = False, reporter: Reporter | None = None
) -> list[dict[str, Any]]:
    """The steps of `build_engines` in the form of `build_preview`, whether the pair may be built or not.

    No engine is written; programs of TensorRT-LLM are named where NVIDIA's image has them.
    """
    listener = reporter or SilentReporter()
    if spec_file.spec.runtime == "torch":
        from trtspec.building.torch_engines import torch_steps

        return torch_steps(spec_file, roles, force=force, reporter=listener)
    from trtspec.building.tensorrt.planning import plan_build

    plan = plan_build(spec_file, roles, BuildSettings(force=force), listener, run=False)
    return [step.to_json() for step in plan.steps()]


def build_preview(
    spec_file: SpecFile, roles: Sequence[Role], settings: BuildSettings, reporter: Reporter | None = None
) -> dict[str, Any]:
    """What `trtspec build --dry-run --output json` prints; no engine is written."""
    listener = reporter or SilentReporter()
    if spec_file.spec.runtime == "torch":
        from trtspec.building.torch_engines import torch_steps

        steps = torch_steps(spec_file, roles, force=settings.force, reporter=listener)
        return {"schema": 1, "steps": steps}
    from trtspec.building.tensorrt.preview import preview

    return preview(spec_file, roles, settings, listener)
