"""Building engines for the torch runtime: content-addressed, atomic, cached."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trtspec.building.built import BuiltEngine, folder_size, is_complete
from trtspec.building.content import fill_engine
from trtspec.building.locks import locked, sweep_unlocked
from trtspec.building.plan import EnginePlan, build_steps, plan_engine
from trtspec.errors import ArtefactMissing, BuildError, TrtspecError
from trtspec.files import atomic_directory
from trtspec.progress import Reporter, SilentReporter
from trtspec.spec import Role, SpecFile
from trtspec.units import bytes_text

__all__ = ["build_torch_engines", "torch_engine_path", "torch_steps"]

_RESERVE = 64 << 20  # bytes of free space that a build leaves


def build_torch_engines(
    spec_file: SpecFile, roles: Sequence[Role], *, force: bool, reporter: Reporter
) -> list[BuiltEngine]:
    """See `trtspec.building.engines.build_engines`."""
    plans = [plan_engine(spec_file, role, reporter) for role in roles]
    return [_finished(plan, time.monotonic(), force=force, reporter=reporter) for plan in plans]


def torch_engine_path(spec_file: SpecFile, role: Role) -> Path:
    """Folder of the finished engine for the spec as it is now; ArtefactMissing when it has to be built."""
    plan = plan_engine(spec_file, role, SilentReporter())
    if not is_complete(plan.path):
        raise ArtefactMissing(
            f"the {role} engine of {spec_file.spec.name!r} is not built (or its checkpoint or options changed)",
            where=str(plan.path),
            fix=f"trtspec build {spec_file.path}",
        )
    return plan.path


def torch_steps(spec_file: SpecFile, roles: Sequence[Role], *, force: bool, reporter: Reporter) -> list[dict[str, Any]]:
    """See `trtspec.building.engines.planned_steps`."""
    plans = [plan_engine(spec_file, role, reporter) for role in roles]
    return build_steps(spec_file, plans, [not force and is_complete(plan.path) for plan in plans])


def _finished(plan: EnginePlan, started: float, *, force: bool, reporter: Reporter) -> BuiltEngine:
    if not force and is_complete(plan.path):
        return _built(plan, started, cached=True)
    with locked(plan.path, lambda holder: reporter.note(f"waiting for the {plan.role} engine: {holder} builds it")):
        if not force and is_complete(plan.path):  # another process was faster
            return _built(plan, started, cached=True)
        sweep_unlocked(plan.path)
        _check_space(plan)
        try:
            with atomic_directory(plan.path) as work:
                fill_engine(plan, work, started, reporter)
        except OSError as error:
            raise BuildError(f"the {plan.role} engine could not be written: {error}", where=str(plan.path)) from error
        except TrtspecError:
            raise
        except Exception as error:
            raise BuildError(f"the {plan.role} engine could not be built: {error}", where=str(plan.path)) from error
    return _built(plan, started, cached=False)


def _built(plan: EnginePlan, started: float, *, cached: bool) -> BuiltEngine:
    return BuiltEngine(plan.role, plan.path, plan.key, cached, time.monotonic() - started, folder_size(plan.path))


def _check_space(plan: EnginePlan) -> None:
    free = shutil.disk_usage(plan.path.parent).free
    if free < plan.size + _RESERVE:
        raise BuildError(
            f"the {plan.role} engine needs {bytes_text(plan.size)}, only {bytes_text(free)} are free",
            where=str(plan.path.parent),
            fix="free some space, or remove engines that no spec uses any more",
        )
