"""The model repository of each arm, generated from the spec and the finished engines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trtspec.files import sweep_partials
from trtspec.repository.config_diff import ConfigChange, config_changes
from trtspec.repository.generations import keep
from trtspec.repository.models import Engine, arm_files, read_engine
from trtspec.repository.sync import Changes, apply, changes, unified_diff
from trtspec.repository.turns import in_turn
from trtspec.repository.versions import AS_IT_IS, VersionChoice, with_versions
from trtspec.rules.registry import Finding
from trtspec.spec.load import SpecFile
from trtspec.spec.names import ARMS, Arm, Role

__all__ = ["GeneratedRepository", "generate", "preview"]


@dataclass(frozen=True)
class GeneratedRepository:
    """The folder of each arm, and what changed there; names are `<arm>/<path in the repository>`."""

    arms: dict[Arm, Path]
    changed: list[str]
    unchanged: int
    removed: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)  # files that trtspec did not make; left alone
    diff: str = ""  # of a preview
    derived: dict[Arm, Mapping[str, Any]] = field(default_factory=dict)  # values that the engines and GPUs decided
    findings: tuple[Finding, ...] = ()  # about the engines; none forbids serving them
    notes: tuple[str, ...] = ()
    models: dict[Arm, tuple[ConfigChange, ...]] = field(default_factory=dict)  # what changed, in terms of models


def generate(
    spec_file: SpecFile, arms: Iterable[Arm] = ARMS, versions: VersionChoice = AS_IT_IS
) -> GeneratedRepository:
    """Write the repositories of `arms`; each is replaced in one step, and untouched when nothing changed.

    What a repository was before and is afterwards is kept (`trtspec.repository.generations`). Raises ArtefactMissing
    when an engine has not been built for the current spec.
    """
    chosen = tuple(arms)
    plan = _versioned(_plan(spec_file, chosen), versions)
    if not any(change.any for change in plan.changes.values()):
        return _summary(plan)
    with in_turn(spec_file.repository(arm) for arm in chosen):
        return _written(_versioned(_plan(spec_file, chosen), versions))


def _written(plan: _Plan) -> GeneratedRepository:
    summary = _summary(plan)
    for change in plan.changes.values():
        sweep_partials(change.folder.parent)
        if change.any:
            keep(change.folder, "found")
            apply(change)
            keep(change.folder, "repo")
    return summary


def preview(spec_file: SpecFile, arms: Iterable[Arm] = ARMS, versions: VersionChoice = AS_IT_IS) -> GeneratedRepository:
    """What `generate` would change, with a unified diff; nothing is written."""
    plan = _versioned(_plan(spec_file, arms), versions)
    return _summary(plan, "".join(unified_diff(change) for change in plan.changes.values()))


def _versioned(plan: _Plan, versions: VersionChoice) -> _Plan:
    """The plan with the code of the models in the version folders that it is to have."""
    made = {
        arm: changes(change.folder, with_versions(change.folder, change.wanted, versions))
        for arm, change in plan.changes.items()
    }
    return replace(plan, changes=made)


@dataclass(frozen=True)
class _Plan:
    """The changes of each arm, and what was derived on the way to them."""

    changes: dict[Arm, Changes]
    derived: dict[Arm, Mapping[str, Any]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()


def _plan(spec_file: SpecFile, arms: Iterable[Arm]) -> _Plan:
    chosen = tuple(arms)
    if spec_file.spec.runtime == "torch":
        return _torch_plan(spec_file, chosen)
    from trtspec.repository.tensorrt_models import tensorrt_arms

    made, findings = tensorrt_arms(spec_file, chosen)
    notes = dict.fromkeys(note for arm in made.values() for note in arm.notes)
    return _Plan(
        {arm: changes(spec_file.repository(arm), found.files) for arm, found in made.items()},
        {arm: found.derived for arm, found in made.items()},
        findings,
        tuple(notes),
    )


def _torch_plan(spec_file: SpecFile, arms: tuple[Arm, ...]) -> _Plan:
    roles = {role for arm in arms for role in spec_file.spec.models(arm).values()}
    engines = {role: _engine(spec_file, role) for role in sorted(roles)}
    return _Plan({arm: changes(spec_file.repository(arm), arm_files(spec_file, arm, engines)) for arm in arms})


def _engine(spec_file: SpecFile, role: Role) -> Engine:
    from trtspec.building import engine_path

    return read_engine(engine_path(spec_file, role), spec_file.checkpoint(role))


def _summary(plan: _Plan, diff: str = "") -> GeneratedRepository:
    def names(kind: str) -> list[str]:
        return [f"{arm}/{name}" for arm, change in plan.changes.items() for name in getattr(change, kind)]

    return GeneratedRepository(
        arms={arm: change.folder for arm, change in plan.changes.items()},
        changed=names("written"),
        unchanged=sum(change.unchanged for change in plan.changes.values()),
        removed=names("removed"),
        foreign=names("foreign"),
        diff=diff,
        derived=plan.derived,
        findings=plan.findings,
        notes=plan.notes,
        models={arm: config_changes(change) for arm, change in plan.changes.items()},
    )
