"""The model repository of each arm, generated from the spec and the finished engines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from trtspec.errors import UsageError
from trtspec.files import sweep_partials
from trtspec.repository.models import Engine, arm_files, read_engine
from trtspec.repository.sync import Changes, apply, changes, unified_diff
from trtspec.spec.load import SpecFile
from trtspec.spec.names import ARM_ROLES, ARMS, Arm, Role

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


def generate(spec_file: SpecFile, arms: Iterable[Arm] = ARMS) -> GeneratedRepository:
    """Write the repositories of `arms`; each is replaced in one step, and untouched when nothing changed.

    Raises ArtefactMissing when an engine has not been built for the current spec.
    """
    plan = _plan(spec_file, arms)
    for change in plan.values():
        sweep_partials(change.folder.parent)
        apply(change)
    return _summary(plan)


def preview(spec_file: SpecFile, arms: Iterable[Arm] = ARMS) -> GeneratedRepository:
    """What `generate` would change, with a unified diff; nothing is written."""
    plan = _plan(spec_file, arms)
    return _summary(plan, "".join(unified_diff(change) for change in plan.values()))


def _plan(spec_file: SpecFile, arms: Iterable[Arm]) -> dict[Arm, Changes]:
    if spec_file.spec.runtime != "torch":
        problem = f"the model repository for runtime {spec_file.spec.runtime} is not in this version of trtspec"
        raise UsageError(problem, where=str(spec_file.path), fix="set `runtime: torch` in the spec")
    chosen = list(arms)
    roles = {role for arm in chosen for role in ARM_ROLES[arm].values()}
    engines = {role: _engine(spec_file, role) for role in sorted(roles)}
    return {arm: changes(spec_file.repository(arm), arm_files(spec_file, arm, engines)) for arm in chosen}


def _engine(spec_file: SpecFile, role: Role) -> Engine:
    from trtspec.building import engine_path

    return read_engine(engine_path(spec_file, role), spec_file.checkpoint(role))


def _summary(plan: dict[Arm, Changes], diff: str = "") -> GeneratedRepository:
    def names(kind: str) -> list[str]:
        return [f"{arm}/{name}" for arm, change in plan.items() for name in getattr(change, kind)]

    return GeneratedRepository(
        arms={arm: change.folder for arm, change in plan.items()},
        changed=names("written"),
        unchanged=sum(change.unchanged for change in plan.values()),
        removed=names("removed"),
        foreign=names("foreign"),
        diff=diff,
    )
