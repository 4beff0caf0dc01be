"""Rules about the files of a repository: can Triton read them, and will it find a model there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from trtspec.repository.contract.parameters import LEAF_PARAMETERS
from trtspec.repository.lint.facts import RepositoryFacts, hit
from trtspec.repository.lint.model import Model
from trtspec.rules.registry import Hit, Level, rule

__all__: list[str] = []

_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}?")
_KEY = re.compile(r"key\s*:\s*[\"']([^\"']+)[\"']")
# a placeholder in one of these stops the model: there is no default, or it is taken as a literal path
_STOPS = {row.key for row in LEAF_PARAMETERS if row.needs_value} | {"lora_prefetch_dir"}
_SKELETON = "triton-inference-server/core src/model_config_utils.cc and src/model_repository_manager"


@rule(
    "repository-empty",
    "CRASH",
    "error",
    subject="repository",
    title="There is no model in the folder",
    source="triton-inference-server: a repository holds one folder a model, with config.pbtxt in it",
    explanation="The folder given to --model-repository must hold the models' folders themselves, not a parent of it "
    "and not one model.",
    fix="Give the folder whose sub-folders hold config.pbtxt.",
    example="--path model_repo/pair instead of model_repo/pair/speculative",
)
def _empty(facts: RepositoryFacts) -> Iterator[Hit]:
    if not any(model.text is not None or model.problem for model in facts.models):
        below = sorted({path.parent.parent for path in facts.folder.glob("*/*/config.pbtxt")})
        itself = (facts.folder / "config.pbtxt").is_file()
        meant = facts.folder.parent if itself else next(iter(below), None)
        fix = f"did you mean {meant}?" if meant else "give the folder whose sub-folders hold config.pbtxt"
        message = f"{facts.folder} holds no model: no folder in it has a config.pbtxt"
        yield Hit("repository", message, fix, {"folder": str(facts.folder)})


@rule(
    "repository-config-missing",
    "CRASH",
    "error",
    subject="repository",
    title="A folder of the repository has no config.pbtxt",
    source=f"{_SKELETON}: hidden folders too; launch_triton_server.py passes --disable-auto-complete-config",
    explanation="Triton takes every folder of a repository for a model, and stops when one has no config.pbtxt. It "
    "can complete the configuration of some Python models (then a warning), but not where auto-completion is off.",
    fix="Write its config.pbtxt, or move the folder out of the repository.",
    example="a folder .ipynb_checkpoints or backup beside the models",
)
def _missing(facts: RepositoryFacts) -> Iterator[Hit]:
    with_config = [model for model in facts.models if model.text is not None or model.problem]
    for model in facts.models if with_config else ():
        if model not in with_config:
            completed = any("model.py" in names for names in model.versions.values())
            level: Level = "warning" if completed else "error"
            message = f"{model.name}: has no config.pbtxt, and Triton takes every folder for a model"
            fix = "write its config.pbtxt, or move the folder out of the repository"
            yield Hit("repository", message, fix, {"model": model.name, "file": str(model.folder)}, level)


@rule(
    "repository-config-unparsable",
    "CRASH",
    "error",
    subject="repository",
    title="A config.pbtxt is no ModelConfig",
    source="protobuf text format of inference.ModelConfig; TRUE is no boolean there, though it is one in string_value",
    explanation="Triton reads config.pbtxt as a protobuf text of its ModelConfig. One wrong field name or type and "
    "the model does not load.",
    fix="Correct the line.",
    example="max_batch_size: ${triton_max_batch_size}, or decoupled: TRUE",
)
def _unparsable(facts: RepositoryFacts) -> Iterator[Hit]:
    for model in facts.models:
        problem = model.problem
        if problem is None or _placeholder_at(model, problem.line):
            continue  # a placeholder's own rule says it better
        yield hit(facts, model, f"cannot be parsed: {problem.message}", "correct the line", line=problem.line)


def _placeholder_at(model: Model, line: int | None) -> bool:
    return line is not None and any(number == line for number, _, _ in _placeholders(model))


def _placeholders(model: Model) -> Iterator[tuple[int, str, str | None]]:
    """Line, name, and the parameter whose value it is (None: elsewhere)."""
    key: str | None = None
    for number, raw in enumerate((model.text or "").splitlines(), 1):
        line = raw.split("#", 1)[0] if raw.lstrip().startswith("#") else raw
        if found := _KEY.search(line):
            key = found[1]
        for match in _PLACEHOLDER.finditer(line):
            yield number, match[1], key if "string_value" in line else None


@rule(
    "repository-placeholder",
    "CRASH",
    "error",
    subject="repository",
    title="A placeholder of the template was not filled in",
    source="triton-inference-server/server#8592, #7950, #7393; fill_template.py replaces the keys it is given only",
    explanation="fill_template.py leaves ${…} as it is for every key that it is not given. As a type, a count or a "
    "batch size it makes the file unreadable; in a parameter the default is taken, or it counts as a literal path.",
    fix="Fill it in; an empty string_value where nothing is wanted.",
    example='string_value: "${decoupled_mode}"',
)
def _placeholder(facts: RepositoryFacts) -> Iterator[Hit]:
    for model in facts.models:
        for line, name, key in _placeholders(model):
            level: Level = "warning" if key is not None and not _stops(model, key) else "error"
            where = f" in parameter {key}" if key else ""
            taken = "it counts as not given" if level == "warning" else "the model does not load"
            message = f"${{{name}}}{where} was not filled in: {taken}"
            fix = f"give {name} a value, or an empty one where nothing is wanted" if key else f"give {name} a value"
            yield hit(facts, model, message, fix, line=line, level=level, placeholder=name, parameter=key)


def _stops(model: Model, key: str) -> bool:
    return key in _STOPS or (key == "tokenizer_dir" and model.kind in ("preprocessing", "postprocessing", "frontend"))


@rule(
    "repository-model-name",
    "CRASH",
    "error",
    subject="repository",
    title="A model's name is not that of its folder",
    source=f"{_SKELETON}: the directory name must equal the model name",
    explanation="Copying the target's folder to make the draft's is the usual way to get there: folder and name both "
    "have to change.",
    fix="Give the folder's name in config.pbtxt.",
    example='tensorrt_llm_draft/config.pbtxt with name: "tensorrt_llm"',
)
def _name(facts: RepositoryFacts) -> Iterator[Hit]:
    for model in facts.parsed:
        said = model.config.name
        if said and said != model.name:
            message = f'name is "{said}", the folder is {model.name}'
            fix = f'write name: "{model.name}", or rename the folder'
            yield hit(facts, model, message, fix, line=model.line_of(said), name=said)


@rule(
    "repository-version-folder",
    "CRASH",
    "error",
    subject="repository",
    title="A model has no version folder that can be served",
    source=f"{_SKELETON}; triton-inference-server/python_backend: model.py lies in the version folder",
    explanation="Triton serves the numbered folders below a model. Empty folders get lost when a repository is copied "
    "with git or to an object store.",
    fix="Make the folder 1 below the model; for Python models with model.py in it.",
    example="tensorrt_llm/config.pbtxt and no tensorrt_llm/1/",
)
def _versions(facts: RepositoryFacts) -> Iterator[Hit]:
    for model in facts.parsed:
        policy = model.config.version_policy
        asked = list(policy.specific.versions) if policy.HasField("specific") else []
        if not model.versions:
            yield hit(facts, model, "has no version folder", f"make {model.name}/1/")
        elif lacking := [number for number in asked if number not in model.versions]:
            there = ", ".join(str(number) for number in model.versions)
            level: Level = "error" if len(lacking) == len(asked) else "warning"
            message = f"version_policy names {', '.join(map(str, lacking))}, there is {there}"
            fix = "name versions that are there (trtspec repo --serve-version)"
            yield hit(facts, model, message, fix, level=level, versions=list(model.versions))
        elif model.backend == "python":
            yield from _without_code(facts, model, asked or [max(model.versions)])


def _without_code(facts: RepositoryFacts, model: Model, served: list[int]) -> Iterator[Hit]:
    name = model.config.default_model_filename or "model.py"
    for number in served:
        if name not in model.versions[number]:
            fix = f"put {name} into {model.name}/{number}/, or remove that folder"
            yield hit(facts, model, f"its version folder {number} has no {name}", fix, version=number)


@rule(
    "repository-duplicate-tensor",
    "SILENT",
    "warning",
    subject="repository",
    title="A model declares a tensor twice",
    source="config.pbtxt of NVIDIA's ensemble lists the output kv_cache_alloc_total_blocks twice",
    explanation="Of two declarations with one name clients see one; which of them counts is not documented. An output "
    "declared twice that a step of an ensemble maps stops the ensemble (an error).",
    fix="Declare it once.",
    example="two outputs kv_cache_alloc_total_blocks",
)
def _duplicates(facts: RepositoryFacts) -> Iterator[Hit]:
    for model in facts.parsed:
        for side in ("input", "output"):
            counts = Counter(item.name for item in getattr(model.config, side))
            for name, count in counts.items():
                if count > 1:
                    level: Level = "error" if side == "output" and _is_mapped(facts, model, name) else "warning"
                    message = f"declares the {side} {name} {count} times"
                    line = model.line_of(name)
                    yield hit(facts, model, message, "declare it once", line=line, level=level, tensor=name)


def _is_mapped(facts: RepositoryFacts, model: Model, output: str) -> bool:
    """Whether a step of an ensemble maps an output of the model."""
    steps = [step for other in facts.parsed for step in other.config.ensemble_scheduling.step]
    return any(step.model_name == model.name and output in step.output_map for step in steps)
