"""Rules about the parameters in config.pbtxt: known to the release, of the right kind, and there where they must be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from trtspec.repository.contract.parameters import LEAF_PARAMETERS
from trtspec.repository.contract.rows import LeafParameter
from trtspec.repository.lint.facts import RepositoryFacts, hit
from trtspec.repository.lint.known import (
    FRONTEND_OPTIONAL,
    FRONTEND_PARAMETERS,
    PYTHON_PARAMETERS,
    RENAMED_PARAMETERS,
)
from trtspec.repository.lint.model import Model
from trtspec.rules.registry import Hit, Level, rule
from trtspec.triton_models.frontend_deployment import Deployment

__all__: list[str] = []

_BACKEND = "triton_backend/inflight_batcher_llm/src of NVIDIA/TensorRT-LLM (model_instance_state.cc, utils.cc)"
_TRITONS_OWN = ("FORCE_CPU_ONLY_INPUT_TENSORS", "EXECUTION_ENV_PATH", "TRITON_BATCH_STRATEGY_PATH")
_INPUTS_BY_VERSION = {
    "min_length": "min_tokens since 0.20",
    "random_seed": "seed since 0.20",
    "min_tokens": "min_length up to 0.19",
    "seed": "random_seed up to 0.19",
    "return_kv_cache_reuse_stats": "return_perf_metrics since 0.19",
}


def _rows(facts: RepositoryFacts, model: Model) -> dict[str, LeafParameter]:
    """The parameters of the model's release, or of any release where that is not known."""
    contract = facts.contract(model)
    return dict(contract.parameters) if contract else {row.key: row for row in LEAF_PARAMETERS}


@rule(
    "repository-parameter-unknown",
    "SILENT",
    "warning",
    subject="repository",
    title="A parameter that this release does not read",
    source=f"{_BACKEND}: a key that is not asked for is never looked at; worker_path is refused",
    explanation="Triton keeps any parameter, and the backend looks only for those it knows. A typing mistake, or a "
    "name of another release, so means the default without a word.",
    fix="Write the name that the release has.",
    example="kv_cache_free_gpu_memory_fraction instead of kv_cache_free_gpu_mem_fraction; worker_path",
)
def _unknown(facts: RepositoryFacts) -> Iterator[Hit]:
    for model in facts.parsed:
        if model.cpp:
            known: Iterable[str] = _rows(facts, model)
        elif model.kind in PYTHON_PARAMETERS:
            table = PYTHON_PARAMETERS[model.kind]
            known = (*table.must, *table.may)
        elif model.kind == "frontend":
            known = (*FRONTEND_PARAMETERS, *FRONTEND_OPTIONAL)
        else:
            continue
        for key in model.parameters:
            if key not in known and key not in _TRITONS_OWN:
                yield _unknown_key(facts, model, key, list(known))


def _unknown_key(facts: RepositoryFacts, model: Model, key: str, known: list[str]) -> Hit:
    level: Level | None = "error" if model.cpp and key == "worker_path" else None
    version = facts.version(model) if model.cpp else None
    whose = f"TensorRT-LLM {version}" if version else f"the {model.kind} model"
    line = model.line_of(key)
    if model.cpp and key in RENAMED_PARAMETERS:
        today, what = RENAMED_PARAMETERS[key]
        fix = f"write {today}" if today else "remove it"
        return hit(facts, model, f"parameter {key}: {what}", fix, line=line, level=level, parameter=key, nearest=today)
    if model.cpp and (other := next((row for row in LEAF_PARAMETERS if row.key == key), None)):
        since = f"since {other.since[0]}.{other.since[1]}" if other.since else "in other releases"
        message = f"parameter {key} is read {since}, not by {whose}"
        return hit(facts, model, message, "remove it", line=line, parameter=key, nearest=None)
    near = next(iter(difflib.get_close_matches(key, known, n=1, cutoff=0.6)), None)
    fix = f"did you mean {near}?" if near else "remove it"
    message = f"parameter {key} is not read by {whose}"
    return hit(facts, model, message, fix, line=line, level=level, parameter=key, nearest=near)


@rule(
    "repository-parameter-value",
    "SILENT",
    "error",
    subject="repository",
    title="A parameter's value is not of the kind that the backend reads",
    source=f"{_BACKEND}: booleans are True true TRUE 1 False false FALSE 0, anything else counts as not given",
    explanation="All parameters are texts. What the backend cannot read as the number, boolean or choice that it "
    "expects is ignored with a line in the log, or stops the model.",
    fix="Write a value of the right kind.",
    example='enable_kv_cache_reuse: "yes"; kv_cache_free_gpu_mem_fraction: "90%"',
)
def _value(facts: RepositoryFacts) -> Iterator[Hit]:
    for model in facts.leaves:
        rows = _rows(facts, model)
        for key, value in model.parameters.items():
            row = rows.get(key)
            if row is None or "${" in value or not value:
                continue
            problem = row.problem(value)
            if problem is not None:
                yield hit(facts, model, f"parameter {key}: {problem}", _kind_fix(row), line=model.line_of(key),
                          parameter=key, value=value)  # fmt: skip

    for model in facts.parsed:
        if model.kind == "frontend" and (reason := _unreadable(model)):
            named = next((key for key, value in model.parameters.items() if value and repr(value) in reason), None)
            message = f"its parameters cannot be read, and it does not load: {reason}"
            line = model.line_of(named) if named else None
            yield hit(facts, model, message, "let trtspec repo write it again", line=line, parameter=named)


def _unreadable(model: Model) -> str | None:
    """Why the frontend cannot read its parameters, as it would say itself; None for what other rules say."""
    if any("${" in value for value in model.parameters.values()):
        return None
    try:
        Deployment.from_parameters(model.parameters)
    except ValueError as error:
        return str(error)
    except KeyError:
        pass
    return None


def _kind_fix(row: LeafParameter) -> str:
    wanted = {"bool": "write true or false", "choice": f"write one of {', '.join(row.choices)}"}
    default = f"; the default is {row.default}" if row.default else ""
    return wanted.get(row.kind, "write a value of that kind") + default


@rule(
    "repository-parameter-missing",
    "CRASH",
    "error",
    subject="repository",
    title="A parameter that must be there is not",
    source=f"{_BACKEND}; initialize() of NVIDIA's Python models",
    explanation="Most parameters have a default. Some have none, and for some the key itself must be there, even with "
    "an empty value: without it the model does not load.",
    fix="Add the key.",
    example="no guided_decoding_backend in a repository for 1.0",
)
def _missing(facts: RepositoryFacts) -> Iterator[Hit]:
    for model in facts.parsed:
        for key, needs_value in _must(facts, model):
            value = model.parameters.get(key)
            if value is None:
                what = "is not there"
            elif value == "" and needs_value:
                what = "is empty"
            else:
                continue
            fix = f"give {key} a value" if needs_value else f"add {key}, it may be empty"
            message = f"parameter {key} {what}; the model does not load"
            yield hit(facts, model, message, fix, line=model.line_of(key), parameter=key)


def _must(facts: RepositoryFacts, model: Model) -> list[tuple[str, bool]]:
    """Keys that must be there, and whether with a value."""
    if model.cpp:
        rows = _rows(facts, model).values()
        # an encoder alone is enough for gpt_model_path
        encoder = model.value("encoder_model_path") is not None
        return [
            (row.key, row.needs_value and not (encoder and row.key == "gpt_model_path"))
            for row in rows
            if row.must_exist
        ]
    if model.kind == "frontend":
        return [(key, key in ("tensorrt_llm_model_name", "tokenizer_dir")) for key in FRONTEND_PARAMETERS]
    table = PYTHON_PARAMETERS.get(model.kind)
    must = [(key, True) for key in table.must] if table else []
    if model.kind == "preprocessing" and "visual_model_path" not in model.parameters:
        must.append(("multimodal_model_path", False))  # visual_model_path up to 0.18
    return must


@rule(
    "repository-input-name",
    "SILENT",
    "error",
    subject="repository",
    title="An input has the name of another release",
    source="config.pbtxt of inflight_batcher_llm 0.19 and 0.20: min_length and random_seed became min_tokens and seed",
    explanation="An input that the release does not know is passed to the backend and never read: clients that send "
    "it get no error and no effect.",
    fix="Write the template's name of the engine's release, in the model and in all that call it.",
    example="min_length in a tensorrt_llm model for 1.2",
)
def _input_name(facts: RepositoryFacts) -> Iterator[Hit]:
    for model in facts.leaves:
        contract = facts.contract(model)
        if contract is None:
            continue
        known = {tensor.name for tensor in contract.inputs}
        for name in model.inputs:
            if name not in known:
                yield _unknown_input(facts, model, name, sorted(known))


def _unknown_input(facts: RepositoryFacts, model: Model, name: str, known: list[str]) -> Hit:
    near = next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.6)), None)
    renamed = _INPUTS_BY_VERSION.get(name)
    fix = f"it is {renamed}" if renamed else f"did you mean {near}?" if near else "remove it"
    message = f"TensorRT-LLM {facts.version(model)} does not read an input {name}"
    level: Level = "error" if renamed else "warning"
    return hit(facts, model, message, fix, line=model.line_of(name), level=level, tensor=name, nearest=near)
