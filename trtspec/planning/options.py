"""What a plan is asked for: the spec's values, changed by the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trtspec.errors import UsageError
from trtspec.hardware.catalogue import Gpu, find_gpu
from trtspec.hardware.detect import detect_gpus
from trtspec.planning.acceptance import Acceptance
from trtspec.planning.forecast import Grid, default_concurrencies, default_draft_lengths
from trtspec.planning.measured import MeasuredRun
from trtspec.planning.memory import MemoryPlan
from trtspec.planning.speedup import Traffic
from trtspec.spec import SpecFile
from trtspec.spec.model import Hardware

__all__ = ["PlanOptions", "chosen_acceptance", "chosen_gpu", "plan_grid", "plan_traffic", "with_hardware"]

NO_ACCEPTANCE = (
    "no acceptance: it is measured or given, never assumed. Run trtspec loadtest and then plan --measured RUN, or give "
    "--acceptance-rate"
)


@dataclass(frozen=True)
class PlanOptions:
    """What the command line adds to the spec; None: the spec's value, or the planner's default."""

    acceptance_rate: float | None = None
    measured: MeasuredRun | None = None
    gpu: str | None = None
    count: int | None = None
    price: float | None = None
    concurrencies: tuple[int, ...] | None = None
    draft_lengths: tuple[int, ...] | None = None
    assumptions: Mapping[str, float] = field(default_factory=dict)


def with_hardware(spec_file: SpecFile, options: PlanOptions) -> SpecFile:
    """The spec with --gpu, --count and --price in its hardware section."""
    hardware = spec_file.spec.hardware
    if options.gpu is None and options.count is None and options.price is None:
        return spec_file
    if options.gpu is None and hardware is None:
        if options.count is not None:
            raise UsageError("--count needs a GPU: the spec has no hardware section", fix="add --gpu NAME")
        return spec_file
    values = {} if hardware is None else hardware.model_dump(exclude_unset=True)
    if options.gpu is not None and hardware is not None and options.gpu != hardware.gpu:
        values.pop("memory_gib", None)  # they were the other GPU's
        values.pop("price_per_hour", None)
    given = {"gpu": options.gpu, "count": options.count, "price_per_hour": options.price}
    values |= {name: value for name, value in given.items() if value is not None}
    if "count" not in values:
        values["count"] = max(spec_file.spec.target.world_size, spec_file.spec.draft.world_size)
    updated = spec_file.spec.model_copy(update={"hardware": Hardware(**values)})
    return SpecFile(spec_file.path, updated)


def chosen_gpu(spec_file: SpecFile) -> tuple[Gpu | None, int | None]:
    """The GPU to plan for and how many (None: as the spec says), the spec's or this machine's."""
    hardware = spec_file.spec.hardware
    if hardware is not None:
        return find_gpu(hardware.gpu, hardware.memory_gib), None
    found, _ = detect_gpus()
    known = [gpu.known for gpu in found if gpu.known is not None and not gpu.mig]
    return (known[0], len(known)) if known else (None, None)


def chosen_acceptance(
    spec_file: SpecFile, options: PlanOptions, run: MeasuredRun | None
) -> tuple[Acceptance | None, str | None]:
    """The option's acceptance, else the run's, else the spec's, else None and why."""
    length = spec_file.spec.speculation.draft_length
    given = spec_file.spec.expectations.acceptance_rate
    if options.acceptance_rate is not None:
        return Acceptance(options.acceptance_rate, length, "option", source="--acceptance-rate"), None
    if run is not None and run.acceptance is not None:
        return run.acceptance, None
    if given is not None:
        return Acceptance(given, length, "spec", source="expectations.acceptance_rate"), None
    return None, NO_ACCEPTANCE if run is None else f"{run.path}: {run.reason}"


def plan_traffic(spec_file: SpecFile) -> Traffic:
    """The expected request."""
    expected = spec_file.spec.expectations
    return Traffic(expected.prompt_tokens, expected.output_tokens, spec_file.spec.build.max_num_tokens)


def plan_grid(spec_file: SpecFile, options: PlanOptions, memory: MemoryPlan) -> Grid:
    """Concurrencies and draft lengths to show: those asked for, else the usual ones."""
    speculation, build = spec_file.spec.speculation, spec_file.spec.build
    longest = speculation.engine_draft_length
    return Grid(
        options.concurrencies or default_concurrencies(build.max_batch_size),
        options.draft_lengths or default_draft_lengths(speculation.draft_length, longest),
        speculation.draft_length,
        longest,
        memory.limits.max_concurrent_sequences,
    )
