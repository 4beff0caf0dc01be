"""Building engines for the torch runtime: content-addressed, atomic, cached."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtspec.building.content import fill_engine
from trtspec.building.plan import EnginePlan, build_steps, plan_engine
from trtspec.errors import ArtefactMissing, BuildError, TrtspecError
from trtspec.files import atomic_directory, read_json, sweep_partials
from trtspec.progress import Reporter, SilentReporter
from trtspec.spec import ROLES, Role, SpecFile
from trtspec.units import bytes_text

__all__ = ["BuiltEngine", "build_engines", "engine_path", "planned_steps"]

_RESERVE = 64 << 20  # bytes of free space that a build leaves


@dataclass(frozen=True)
class BuiltEngine:
    """A finished engine; `seconds` is what this call spent on it."""

    role: Role
    path: Path
    key: str
    cached: bool
    seconds: float
    size_bytes: int


def build_engines(
    spec_file: SpecFile,
    roles: Sequence[Role] = ROLES,
    *,
    force: bool = False,
    reporter: Reporter | None = None,
) -> list[BuiltEngine]:
    """The engines of `roles`, each found finished or built now.

    All checkpoints are examined before anything is written (CheckpointError). An engine folder appears whole or not
    at all; two builds of one engine at once wait for each other. BuildError for what goes wrong while building.
    """
    listener = reporter or SilentReporter()
    require_torch_runtime(spec_file)
    plans = [plan_engine(spec_file, role, listener) for role in roles]
    return [_finished(plan, time.monotonic(), force=force, reporter=listener) for plan in plans]


def engine_path(spec_file: SpecFile, role: Role) -> Path:
    """Folder of the finished engine for the spec as it is now; ArtefactMissing when it has to be built."""
    require_torch_runtime(spec_file)
    plan = plan_engine(spec_file, role, SilentReporter())
    if not is_complete(plan.path):
        raise ArtefactMissing(
            f"the {role} engine of {spec_file.spec.name!r} is not built (or its checkpoint or options changed)",
            where=str(plan.path),
            fix=f"trtspec build {spec_file.path}",
        )
    return plan.path


def planned_steps(
    spec_file: SpecFile, roles: Sequence[Role], *, force: bool = False, reporter: Reporter | None = None
) -> list[dict[str, Any]]:
    """What `build_engines` would do, in the form of `trtspec build --dry-run`; no engine is written."""
    require_torch_runtime(spec_file)
    plans = [plan_engine(spec_file, role, reporter or SilentReporter()) for role in roles]
    return build_steps(spec_file, plans, [not force and is_complete(plan.path) for plan in plans])


def require_torch_runtime(spec_file: SpecFile) -> None:
    """BuildError unless the spec's engines are of the runtime that this version builds."""
    if spec_file.spec.runtime != "torch":
        raise BuildError(
            f"engines for runtime {spec_file.spec.runtime} are not built by this version of trtspec",
            where=str(spec_file.path),
            fix="write 'runtime: torch' to measure the pair with the PyTorch engine",
        )


def is_complete(folder: Path) -> bool:
    """True for an engine folder that holds every file of its manifest in the right size."""
    try:
        files: dict[str, dict[str, Any]] = read_json(folder / "manifest.json")["files"]
        return all((folder / name).stat().st_size == entry["size"] for name, entry in files.items())
    except (OSError, json.JSONDecodeError, KeyError, TypeError):
        return False


def _finished(plan: EnginePlan, started: float, *, force: bool, reporter: Reporter) -> BuiltEngine:
    if not force and is_complete(plan.path):
        return _built(plan, started, cached=True)
    sweep_partials(plan.path.parent)
    with _lock(plan.path):
        if not force and is_complete(plan.path):  # another process was faster
            return _built(plan, started, cached=True)
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
    size = sum(path.stat().st_size for path in plan.path.rglob("*") if path.is_file() and not path.is_symlink())
    return BuiltEngine(plan.role, plan.path, plan.key, cached, time.monotonic() - started, size)


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock for the engine at `path`; released by the system when the process dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_CREAT | os.O_RDWR, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _check_space(plan: EnginePlan) -> None:
    free = shutil.disk_usage(plan.path.parent).free
    if free < plan.size + _RESERVE:
        raise BuildError(
            f"the {plan.role} engine needs {bytes_text(plan.size)}, only {bytes_text(free)} are free",
            where=str(plan.path.parent),
            fix="free some space, or remove engines that no spec uses any more",
        )
