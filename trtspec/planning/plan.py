"""`make_plan`: whether a pair works, fits and pays, from metadata alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from trtspec.errors import TrtspecError
from trtspec.hardware.catalogue import Gpu
from trtspec.planning.cost import ArmCost, Deployment, Prices, cost_rows, cost_summary
from trtspec.planning.forecast import Forecast
from trtspec.planning.measured import MeasuredRun, level_comparison
from trtspec.planning.memory import MemoryPlan, memory_plan
from trtspec.planning.options import (
    PlanOptions,
    chosen_acceptance,
    chosen_gpu,
    plan_grid,
    plan_traffic,
    with_hardware,
)
from trtspec.planning.plan_rules import plan_findings
from trtspec.planning.roofline import Machine, with_assumptions
from trtspec.planning.speedup import Performance, SpeedModel, Traffic
from trtspec.planning.values import value_origins
from trtspec.planning.verdict import verdict_sentence
from trtspec.rules import CheckResult, check_pair
from trtspec.rules.registry import Finding, run_rules
from trtspec.spec import Spec, SpecFile

__all__ = ["Plan", "PlanOptions", "make_plan"]

SCHEMA = 1
NO_GPU = "no GPU: set hardware.gpu or give --gpu NAME (`trtspec plan --gpus` lists those that are known)"
NO_ROOFLINE = (
    "the step-cost model is for GPUs, and this plan is for the torch runtime on a CPU: measure with trtspec loadtest "
    "and give --measured RUN, or plan for a GPU with --gpu NAME"
)
ON_NGRAM = (
    "every round is taken to have a draft, and a draft to cost nothing; where the text holds none, the target goes on "
    "alone, so this is the most there can be: the share of such steps is the text's; measure it with trtspec loadtest"
)
ON_LOOKUP = (
    "every round is taken to be drafted by the model, with speculation.draft_length; a round whose draft is found in "
    "the text costs no draft passes and has a length and an acceptance of its own, so measure with trtspec loadtest"
)
ON_ROUNDS = "acceptance is of rounds with a draft; the steps for which the text held none are not in it"
ON_TORCH = "step costs are those of engines on this GPU; the torch runtime is slower, so measure it"


@dataclass(frozen=True)
class Plan:
    """Everything that was planned; a part that could not be is None, and `reasons` says why by its name."""

    spec_file: SpecFile
    options: PlanOptions
    check: CheckResult
    gpu: Gpu | None
    memory: MemoryPlan | None
    forecast: Forecast | None
    run: MeasuredRun | None
    reasons: Mapping[str, str]
    own_findings: tuple[Finding, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those of the check and those of the plan."""
        return (*self.check.findings, *self.own_findings)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that forbid serving the pair."""
        return tuple(finding for finding in self.findings if finding.level == "error")

    @property
    def ok(self) -> bool:
        """False when the pair cannot be served or does not fit."""
        return not self.errors and (self.memory is None or self.memory.fits is not False)

    @property
    def prices(self) -> Prices:
        """The user's prices and load."""
        hardware, expected = self.spec_file.spec.hardware, self.spec_file.spec.expectations
        price = hardware.price_per_hour if hardware else None
        given = self.options.price
        return Prices(
            price if given is None else given,
            expected.requests_per_second,
            expected.prompt_tokens,
            expected.output_tokens,
        )

    @property
    def deployments(self) -> tuple[Deployment, ...]:
        """Both arms with their GPUs and the sequences that fit; empty without a memory plan."""
        if self.memory is None:
            return ()
        roles = self.memory.placement.roles
        target = len(set(roles["target"].gpus))
        both = len(self.memory.placement.gpus)
        return (
            Deployment("baseline", target, self.memory.baseline.limits.max_concurrent_sequences),
            Deployment("speculative", both, self.memory.limits.max_concurrent_sequences),
        )

    @property
    def cost_rows(self) -> tuple[ArmCost, ...]:
        """The baseline's rows, then the speculative ones (none without an acceptance)."""
        if self.forecast is None or not self.deployments:
            return ()
        baseline, speculative = self.deployments
        return (
            *cost_rows(self.forecast.baselines, baseline, self.prices),
            *cost_rows(self.forecast.speculative(), speculative, self.prices),
        )

    @property
    def draft_share(self) -> float | None:
        """Share of the GPUs' memory that draft weights, cache and buffers take in the speculative arm."""
        if self.memory is None or "draft" not in self.memory.placement.models:
            return None
        totals = [gpu.total for gpu in self.memory.per_gpu]
        known = [total for total in totals if total]
        if len(known) != len(totals):
            return None
        return sum(gpu.of("draft") for gpu in self.memory.per_gpu) / sum(known)

    @property
    def verdict(self) -> str:
        """One plain sentence: does it fit, does it pay, what to set."""
        return verdict_sentence(self)

    @property
    def values(self) -> dict[str, dict[str, Any]]:
        """Every value with its origin; those of the command line say so."""
        rows = value_origins(self.spec_file, self.memory)
        typed = {
            "hardware.gpu": (self.options.gpu, "--gpu"),
            "hardware.count": (self.options.count, "--count"),
            "hardware.price_per_hour": (self.options.price, "--price"),
            "expectations.acceptance_rate": (self.options.acceptance_rate, "--acceptance-rate"),
        }
        for key, (value, option) in typed.items():
            if value is not None:
                rows[key] = {"value": value, "origin": "given", "why": option}
        return rows

    def comparisons(self) -> tuple[dict[str, Any], ...]:
        """Each concurrency of the measured run beside its prediction; empty without a run."""
        if self.run is None:
            return ()
        model = self._model_of_run()
        return tuple(level_comparison(level, self.run, self._predicted(model, level.concurrency)) for level in
                     self.run.levels)  # fmt: skip

    @property
    def run_warnings(self) -> tuple[str, ...]:
        """What stands against holding the run against this plan."""
        run, spec = self.run, self.spec_file.spec
        if run is None:
            return ()
        other = [
            f"{what} {theirs}, this plan {ours}"
            for what, theirs, ours in (("name", run.name, spec.name), ("runtime", run.runtime, spec.runtime))
            if theirs is not None and theirs != ours
        ]
        alone = [ON_ROUNDS] if not spec.draft.is_model else []
        return (*run.warnings, *alone, *(f"the run is of another spec: {text}" for text in other))

    def _model_of_run(self) -> SpeedModel | None:
        """The step costs under the traffic that the run had."""
        if self.forecast is None or self.run is None:
            return None
        model, run = self.forecast.model, self.run
        usual = model.traffic
        traffic = Traffic(
            run.prompt_tokens or usual.prompt_tokens, run.output_tokens or usual.output_tokens, usual.max_num_tokens
        )
        return SpeedModel(model.target, model.draft, model.machine, traffic)

    def _predicted(self, model: SpeedModel | None, concurrency: int) -> tuple[Performance, Performance] | None:
        acceptance = self.run.acceptance if self.run else None
        if model is None or acceptance is None:
            return None
        length = acceptance.draft_length
        tokens = acceptance.tokens_per_round(length)
        return model.baseline(concurrency), model.speculative(concurrency, length, tokens)

    def to_json(self) -> dict[str, Any]:
        """The plan as `plan --output json` prints it."""
        memory = self.memory
        return {
            "schema": SCHEMA,
            "ok": self.ok,
            "verdict": self.verdict,
            "memory": None if memory is None else memory.to_json(),
            "limits": None if memory is None else memory.limits.to_json(),
            "placement": None if memory is None else memory.placement.to_json(),
            "speedup": None if self.forecast is None else self.forecast.to_json(),
            "cost": self._cost_json(),
            "measured": self._measured_json(),
            "reasons": dict(self.reasons),
            "values": self.values,
            "findings": [finding.to_json() for finding in self.findings],
            "pair": self.check.to_json()["pair"],
        }

    def _cost_json(self) -> dict[str, Any] | None:
        rows = self.cost_rows
        return cost_summary(rows, self.prices, self.deployments, self.draft_share) if rows else None

    def _measured_json(self) -> dict[str, Any] | None:
        run = self.run
        if run is None:
            return None
        return {
            "run": str(run.path),
            "acceptance": None if run.acceptance is None else run.acceptance.to_json(),
            "reason": run.reason,
            "prompt_tokens": run.prompt_tokens,
            "output_tokens": run.output_tokens,
            "levels": list(self.comparisons()),
            "loses_at": list(run.loses_at),
            "given_acceptance_rate": self.spec_file.spec.expectations.acceptance_rate,
            "prediction_reason": None if self.forecast else self.reasons.get("speedup"),
            "verdict": run.verdict,
            "ideal_speedup": _ideal(run),
            "warnings": list(self.run_warnings),
        }


def _ideal(run: MeasuredRun) -> float | None:
    """The speed-up if drafting and verifying cost nothing: the tokens of a round."""
    return run.acceptance.tokens_per_round(run.acceptance.draft_length) if run.acceptance else None


def make_plan(spec_file: SpecFile, options: PlanOptions | None = None) -> Plan:
    """Check the pair, plan its memory and placement, forecast its speed, compare with a run.

    Reads metadata only. Faults of the checkpoints become findings; UsageError for a GPU or an assumption that is not
    known. What cannot be planned is left out with a reason.
    """
    asked = options or PlanOptions()
    assumptions = with_assumptions(asked.assumptions)
    changed = with_hardware(spec_file, asked)
    gpu, count = chosen_gpu(changed)
    run = asked.measured
    check = check_pair(changed, weights=False)
    reasons: dict[str, str] = {}
    memory = _memory(changed, check, gpu, count, reasons)
    own = () if memory is None else plan_findings(changed, memory)
    why = _no_forecast(changed, memory, gpu)
    forecast = None
    if memory is not None and gpu is not None and why is None:
        acceptance, reason = chosen_acceptance(changed, asked, run)
        shapes = memory.inputs.shapes
        model = SpeedModel(shapes["target"], shapes.get("draft"), Machine(gpu, assumptions), plan_traffic(changed))
        forecast = Forecast(model, plan_grid(changed, asked, memory), acceptance, reason, _caveat(changed.spec))
    if why is not None:
        reasons.setdefault("speedup", why)
        reasons["cost"] = f"no speed to price: {reasons['speedup']}"
    return Plan(changed, asked, check, gpu, memory, forecast, run, reasons, own)


def _caveat(spec: Spec) -> str | None:
    """What the forecast leaves out."""
    parts = {"model": [], "ngram": [ON_NGRAM], "lookup": [ON_LOOKUP]}[spec.draft.method]
    return "; ".join([*parts, *([ON_TORCH] if spec.runtime == "torch" else [])]) or None


def _no_forecast(spec_file: SpecFile, memory: MemoryPlan | None, gpu: Gpu | None) -> str | None:
    """Why steps cannot be costed; None when they can."""
    if gpu is None:
        return NO_ROOFLINE if spec_file.spec.runtime == "torch" else NO_GPU
    if memory is None:
        return "not planned"
    unknown = [role for role in memory.placement.models if not memory.inputs.shapes[role].total_parameters]
    return f"the parameters of the {unknown[0]} engine's family cannot be counted" if unknown else None


def _allowed(check: CheckResult, spec: Spec, gpu: Gpu | None) -> bool:
    """True when no rule refuses `spec` on `gpu`, beside what is refused already."""
    refused = {(finding.id, finding.role) for finding in check.of_level("error")}
    found = run_rules(replace(check.facts, spec=spec, gpu=gpu))
    return all(finding.level != "error" or (finding.id, finding.role) in refused for finding in found)


def _memory(
    spec_file: SpecFile, check: CheckResult, gpu: Gpu | None, count: int | None, reasons: dict[str, str]
) -> MemoryPlan | None:
    try:
        return memory_plan(
            spec_file, gpu, check.facts.surveys, count=count, allowed=lambda spec, other: _allowed(check, spec, other)
        )
    except TrtspecError as error:
        if check.ok:
            raise
        why = f"{error}: see the findings"
        reasons.update({"memory": why, "limits": why, "placement": why, "speedup": why})
        return None
