"""Rules about calls between models: the callee is there, and has the tensors that the caller uses."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trtspec.repository.lint.facts import Caller, RepositoryFacts, hit
from trtspec.repository.lint.known import (
    BLS_CALLS,
    BLS_NEEDS,
    FRONTEND_CALLS,
    FRONTEND_NEEDS,
    LEAF_TENSORS,
    POSTPROCESSING,
    PREPROCESSING,
    Needs,
    Shape,
)
from trtspec.repository.lint.model import Declared, Model
from trtspec.rules.registry import Hit, Level, rule

__all__ = ["dims_agree"]

_TEMPLATES = "config.pbtxt and triton_decoder.py of NVIDIA's inflight_batcher_llm"


def dims_agree(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether a tensor of one shape can be passed as the other: -1 fits any size."""
    return len(one) == len(other) and all(-1 in pair or pair[0] == pair[1] for pair in zip(one, other, strict=True))


@rule(
    "repository-model-unknown",
    "CRASH",
    "error",
    subject="repository",
    title="A model calls one that is not there",
    source=f"{_TEMPLATES}: the BLS calls preprocessing and postprocessing by name and two models by parameter",
    explanation="The names of the models behind a BLS are parameters, those of its pre- and postprocessing fixed. A "
    "name that points nowhere is found at the first request, not while loading; in an ensemble while loading.",
    fix="Correct the name, or add the model.",
    example='tensorrt_llm_draft_model_name: "tensorrt_llm_drafts"',
)
def _unknown(facts: RepositoryFacts) -> Iterator[Hit]:
    names = [model.name for model in facts.models]
    for model in facts.parsed:
        for name, where in _called(facts, model):
            if name not in names:
                near = next(iter(difflib.get_close_matches(name, names, n=1, cutoff=0.6)), None)
                fix = f"did you mean {near}?" if near else f"add the model {name}, or correct the name"
                message = f"{where} names {name}, and there is no such model"
                yield hit(facts, model, message, fix, line=model.line_of(name), name=name, nearest=near)


def _called(facts: RepositoryFacts, model: Model) -> Iterator[tuple[str, str]]:
    """Names of models that it calls, and where each is said."""
    for caller in facts.callers:
        if caller.model is model:
            yield caller.target, "tensorrt_llm_model_name"
            if caller.draft:
                yield caller.draft, "tensorrt_llm_draft_model_name"
            if model.kind == "bls":
                yield from ((name, "the BLS") for name in (PREPROCESSING, POSTPROCESSING))
    if model.kind == "ensemble":
        yield from ((step.model_name, "a step of the ensemble") for step in model.config.ensemble_scheduling.step)


@rule(
    "repository-draft-unused",
    "SILENT",
    "warning",
    subject="repository",
    title="There is a draft model, and nothing calls it",
    source=f"{_TEMPLATES}: without tensorrt_llm_draft_model_name the BLS refuses requests with num_draft_tokens",
    explanation="The draft takes its share of the GPU, and no request ever speculates.",
    fix="Name it in tensorrt_llm_draft_model_name, or remove it.",
    example='tensorrt_llm_draft_model_name: "" beside a model tensorrt_llm_draft',
)
def _unused(facts: RepositoryFacts) -> Iterator[Hit]:
    called = {name for model in facts.parsed for name, _ in _called(facts, model)}
    for model in facts.leaves if facts.callers else ():
        if model.name not in called:
            who = ", ".join(caller.model.name for caller in facts.callers)
            fix = f"set tensorrt_llm_draft_model_name to {model.name} in {who}, or remove the model"
            yield hit(facts, model, "no model calls it; it only takes memory", fix, callers=who)


@dataclass(frozen=True)
class _Use:
    """A tensor that a caller uses of a callee: as what (None: only its name counts), and for every request or not."""

    caller: Model
    callee: Model
    side: str
    tensor: str
    shape: Shape | None
    passed: str | None = None  # the caller's own input that is passed on

    @property
    def always(self) -> bool:
        return self.passed is None

    @property
    def declared(self) -> Declared | None:
        """The callee's tensor."""
        return (self.callee.inputs if self.side == "input" else self.callee.outputs).get(self.tensor)


def _uses(facts: RepositoryFacts) -> Iterator[_Use]:
    for caller in facts.callers:
        own = caller.model.kind == "frontend"
        needs, calls = (FRONTEND_NEEDS, FRONTEND_CALLS) if own else (BLS_NEEDS, BLS_CALLS)
        for callee, parts in _callees(facts, caller):
            for part in parts:
                yield from _needed(caller.model, callee, needs.get(part))
            yield from _passed(caller.model, callee, parts, calls)


def _callees(facts: RepositoryFacts, caller: Caller) -> Iterator[tuple[Model, tuple[str, ...]]]:
    """Models that a caller calls, with the parts of its table that hold for each."""
    target, draft = facts.model(caller.target), facts.model(caller.draft)
    if target is not None:
        yield target, ("leaf", "target") if draft is not None or caller.lookup else ("leaf",)
    if draft is not None:
        yield draft, ("leaf", "draft")
    for name in (PREPROCESSING, POSTPROCESSING) if caller.model.kind == "bls" else ():
        model = facts.model(name)
        if model is not None:
            yield model, (name,)


def _needed(caller: Model, callee: Model, needs: Needs | None) -> Iterator[_Use]:
    if needs is not None:
        yield from (_Use(caller, callee, "input", name, shape) for name, shape in needs.inputs.items())
        yield from (_Use(caller, callee, "output", name, shape) for name, shape in needs.outputs.items())


def _passed(
    caller: Model, callee: Model, parts: tuple[str, ...], calls: Mapping[str, tuple[str, str]]
) -> Iterator[_Use]:
    for name, (part, there) in calls.items():
        declared = caller.inputs.get(name)
        if declared is not None and part in parts:
            yield _Use(caller, callee, "input", _renamed(caller, there), _shape_of(caller, declared, there), name)


def _renamed(caller: Model, tensor: str) -> str:
    """The frontend says in parameters what an input is called in the leaves' release."""
    key = {"min_tokens": "min_tokens_input", "seed": "seed_input"}.get(tensor)
    return (key and caller.kind == "frontend" and caller.value(key)) or tensor


def _shape_of(caller: Model, declared: Declared, there: str) -> Shape | None:
    if caller.kind == "frontend":  # it makes these tensors itself
        return LEAF_TENSORS["input"].get(there)
    return Shape((declared.type,), declared.dims)


@rule(
    "repository-tensor-missing",
    "CRASH",
    "error",
    subject="repository",
    title="A caller uses a tensor that the model it calls does not have",
    source=f"{_TEMPLATES}; Triton refuses such requests: unexpected inference input",
    explanation="Configurations of two releases mixed, or a tensor left out by hand. Triton loads the models and "
    "refuses the inner request: every one, or those in which a client uses the feature (a warning).",
    fix="Take caller and callee from the same release.",
    example="a BLS of 0.20, which sends min_tokens, before a tensorrt_llm of 0.19 with min_length",
)
def _tensors(facts: RepositoryFacts) -> Iterator[Hit]:
    for use in _uses(facts):
        if use.declared is None:
            level: Level = "error" if use.always else "warning"
            what = f"the {use.side} {use.tensor}"
            when = "for every request" if use.always else f"for requests with {use.passed}"
            message = f"uses {what} of {use.callee.name} {when}, which has none of that name"
            fix = f"declare {use.tensor} in {use.callee.place()}, or take both models from one release"
            yield hit(facts, use.caller, message, fix, level=level, callee=use.callee.name, tensor=use.tensor)


@rule(
    "repository-tensor-differs",
    "CRASH",
    "error",
    subject="repository",
    title="A tensor has another type or shape than its user expects",
    source=f"{_TEMPLATES}; Triton compares types and dims of every inner request",
    explanation="Types and dims are checked at each request: one that does not fit is refused.",
    fix="Write type and dims as the template of the release has them.",
    example="input_ids as TYPE_INT64",
)
def _differs(facts: RepositoryFacts) -> Iterator[Hit]:
    seen: set[tuple[str, str, str]] = set()
    for model in facts.leaves:
        for side, known in LEAF_TENSORS.items():
            for declared in (model.inputs if side == "input" else model.outputs).values():
                shape = known.get(declared.name)
                if shape is not None and not _fits(declared, shape):
                    seen.add((model.name, side, declared.name))
                    message = f"declares {declared.name} as {declared}, the backend has {shape}"
                    fix = f"write {shape}"
                    yield hit(facts, model, message, fix, line=model.line_of(declared.name), tensor=declared.name)
    for use in _uses(facts):
        declared_there = use.declared
        known_already = (use.callee.name, use.side, use.tensor) in seen
        if declared_there and use.shape and not known_already and not _fits(declared_there, use.shape):
            message = f"{_verb(use)} {use.tensor} of {use.callee.name} as {use.shape}, it is {declared_there}"
            fix = f"make them the same; the other is in {use.callee.place(use.callee.line_of(use.tensor))}"
            line = use.caller.line_of(use.passed) if use.passed else None
            yield hit(facts, use.caller, message, fix, line=line, callee=use.callee.name, tensor=use.tensor)


def _verb(use: _Use) -> str:
    return "reads the output" if use.side == "output" else "sends the input"


def _fits(declared: Declared, shape: Shape) -> bool:
    return declared.type in shape.types and dims_agree(declared.dims, shape.dims)
