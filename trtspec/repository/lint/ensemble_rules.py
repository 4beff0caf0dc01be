"""Rules about the steps of ensembles: each maps tensors that are there, and what it takes is made by somebody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from trtspec.repository.lint.call_rules import dims_agree
from trtspec.repository.lint.facts import RepositoryFacts, hit
from trtspec.repository.lint.model import Declared, Model
from trtspec.rules.registry import Hit, rule

__all__: list[str] = []

_SOURCE = "triton-inference-server/core src/ensemble_scheduler: step maps are validated while the ensemble loads"


@dataclass
class _Flow:
    """Tensors inside an ensemble by name, each as who made it declares it."""

    made: dict[str, tuple[str, Declared]] = field(default_factory=dict)

    def add(self, maker: str, name: str, declared: Declared) -> None:
        self.made.setdefault(name, (maker, declared))


def _steps(facts: RepositoryFacts, ensemble: Model) -> Iterator[tuple[Model, Mapping[str, str], Mapping[str, str]]]:
    """Model, input map and output map of each step whose model is there."""
    for step in ensemble.config.ensemble_scheduling.step:
        model = facts.model(step.model_name)
        if model is not None:
            yield model, dict(step.input_map), dict(step.output_map)


def _flow(facts: RepositoryFacts, ensemble: Model) -> _Flow:
    flow = _Flow()
    for declared in ensemble.inputs.values():
        flow.add(f"the ensemble's input {declared.name}", declared.name, declared)
    for model, _, outputs in _steps(facts, ensemble):
        for name, inner in outputs.items():
            if name in model.outputs:
                flow.add(f"{model.name}.{name}", inner, model.outputs[name])
    return flow


def _ensembles(facts: RepositoryFacts) -> Iterator[Model]:
    yield from (model for model in facts.parsed if model.kind == "ensemble")


@rule(
    "repository-ensemble-map",
    "CRASH",
    "error",
    subject="repository",
    title="A step of an ensemble maps a tensor that its model does not have, or leaves out one that it needs",
    source=_SOURCE,
    explanation="The maps of an ensemble name tensors of its models. Triton refuses the ensemble while loading when "
    "one is not there, or when an input that a model needs is not mapped.",
    fix="Correct the map, or take all models from one release.",
    example='input_map { key: "min_length" value: "min_length" } before a model that has min_tokens',
)
def _maps(facts: RepositoryFacts) -> Iterator[Hit]:
    for ensemble in _ensembles(facts):
        for model, inputs, outputs in _steps(facts, ensemble):
            for name in inputs:
                if name not in model.inputs:
                    yield _unknown(facts, ensemble, model, "input", name)
            for name in outputs:
                if name not in model.outputs:
                    yield _unknown(facts, ensemble, model, "output", name)
            for name, declared in model.inputs.items():
                if not declared.optional and name not in inputs:
                    message = f"the step {model.name} gives no {name}, which that model needs"
                    fix = f"add {name} to the step's input_map"
                    yield hit(facts, ensemble, message, fix, callee=model.name, tensor=name)


def _unknown(facts: RepositoryFacts, ensemble: Model, model: Model, side: str, name: str) -> Hit:
    message = f"the step {model.name} maps the {side} {name}, which that model does not have"
    fix = f"remove it from the step's {side}_map, or declare it in {model.place()}"
    line = ensemble.line_of(name)
    return hit(facts, ensemble, message, fix, line=line, callee=model.name, tensor=name)


@rule(
    "repository-ensemble-flow",
    "CRASH",
    "error",
    subject="repository",
    title="An ensemble's tensor is made by nobody, or as something else than its user takes",
    source=_SOURCE,
    explanation="What a step takes is an input of the ensemble or an output of another step, with the same type and "
    "dims. The usual fault is a logits type that was filled in for some of the files only.",
    fix="Give both sides the same type, and every tensor a maker.",
    example="generation_logits as TYPE_FP16 in tensorrt_llm and as TYPE_FP32 in the ensemble",
)
def _flows(facts: RepositoryFacts) -> Iterator[Hit]:
    for ensemble in _ensembles(facts):
        if any(facts.model(step.model_name) is None for step in ensemble.config.ensemble_scheduling.step):
            continue  # a rule of its own says so; what that model makes is not known
        flow = _flow(facts, ensemble)
        for model, inputs, _ in _steps(facts, ensemble):
            for name, inner in inputs.items():
                declared = model.inputs.get(name)
                if declared is not None:
                    yield from _met(facts, ensemble, flow, (inner, f"{model.name}.{name}", declared))
        for name, declared in ensemble.outputs.items():
            yield from _met(facts, ensemble, flow, (name, f"the ensemble's output {name}", declared))


def _met(facts: RepositoryFacts, ensemble: Model, flow: _Flow, user: tuple[str, str, Declared]) -> Iterator[Hit]:
    inner, who, wanted = user
    line = ensemble.line_of(inner)
    if inner not in flow.made:
        message = f"{who} takes {inner}, which nothing makes"
        yield hit(facts, ensemble, message, f"make {inner} an input, or map an output to it", line=line, tensor=inner)
        return
    maker, made = flow.made[inner]
    if made.type != wanted.type or not dims_agree(made.dims, wanted.dims):
        message = f"{inner} is {made} from {maker}, and {wanted} at {who}"
        yield hit(facts, ensemble, message, "give both the same type and dims", line=line, tensor=inner, maker=maker)
