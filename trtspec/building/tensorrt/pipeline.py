"""Building TensorRT engines: plan, refuse what cannot work, make what is missing, hold it against what was asked."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Event

from trtspec.building.built import BuildSettings, BuiltEngine, folder_size
from trtspec.building.given import given_expectation
from trtspec.building.inspection.inspect import errors_of, inspect_engines
from trtspec.building.tensorrt.making import Maker
from trtspec.building.tensorrt.planning import BuildPlan, plan_build
from trtspec.building.tensorrt.refusals import (
    memory_notes,
    refuse_given,
    refuse_pair,
    refuse_space,
    refuse_without_weights,
)
from trtspec.building.tensorrt.scheduling import Schedule, run_all
from trtspec.building.tensorrt.site import local_refusal, refuse_sm
from trtspec.errors import EngineRejected
from trtspec.progress import Reporter
from trtspec.spec import Role, SpecFile

__all__ = ["build_tensorrt_engines"]


def build_tensorrt_engines(
    spec_file: SpecFile, roles: Sequence[Role], settings: BuildSettings, reporter: Reporter
) -> list[BuiltEngine]:
    """The engines of `roles`, found finished or built now; see `trtspec.building.engines.build_engines`.

    Everything that speaks against the pair, the version, the GPU or the disk is raised before a program starts.
    """
    started = time.monotonic()
    plan = plan_build(spec_file, roles, settings, reporter)
    refuse_given(plan)
    made = _Made({}, frozenset())
    if plan.to_make:
        _refuse(plan, reporter)
        made = _make(plan, reporter)
    _inspect_together(plan)
    return [_built(plan, role, made, time.monotonic() - started) for role in roles]


@dataclass(frozen=True)
class _Made:
    """Seconds spent by key, and the keys of what another process turned out to have made."""

    seconds: Mapping[str, float]
    found: frozenset[str]


def _refuse(plan: BuildPlan, reporter: Reporter) -> None:
    refuse_pair(plan, weights=True)
    refuse_without_weights(plan)
    refuse_sm(plan.site)
    local_refusal(plan.site)
    refuse_space(plan)
    for note in memory_notes(plan):
        reporter.note(f"[yellow]warning:[/] {note}")


def _make(plan: BuildPlan, reporter: Reporter) -> _Made:
    maker = Maker(plan, reporter, Event())
    gpus, wanted = plan.site.gpus.names, plan.settings.jobs
    schedule = Schedule(
        products=plan.to_make,
        jobs=wanted or max(1, min(len(gpus), len(plan.to_make))),
        gpus=gpus,
        share=wanted is not None and wanted > 1,
        stop=maker.stop,
    )
    seconds = run_all(schedule, maker.make, reporter)
    return _Made(seconds, frozenset(maker.found))


def _inspect_together(plan: BuildPlan) -> None:
    """What only shows when target and draft are seen side by side."""
    engines = [(engine.folder, plan.expectation(engine)) for engine in plan.engines.values()]
    engines += [(path, given_expectation(plan.spec_file, role)) for role, path in plan.given.items()]
    errors = errors_of(inspect_engines(engines, acceptance=plan.spec_file.spec.speculation.acceptance))
    if errors:
        lines = "".join(f"\n  {finding.role}: {finding.message}" for finding in errors)
        raise EngineRejected(f"these engines cannot be served together:{lines}", errors, fix=errors[0].fix)


def _built(plan: BuildPlan, role: Role, made: _Made, total: float) -> BuiltEngine:
    engine = plan.engines.get(role)
    if engine is None:
        folder = plan.given[role]
        return BuiltEngine(role, folder, folder.name, cached=True, seconds=0.0, size_bytes=folder_size(folder))
    keys = [engine.key, *([engine.needs.key] if engine.needs is not None else [])]
    spent = sum(made.seconds.get(key, 0.0) for key in keys) if made.seconds else total
    cached = engine.key not in made.seconds or engine.key in made.found
    return BuiltEngine(role, engine.folder, engine.key, cached, spent, folder_size(engine.folder))
