"""Reading a spec file: all problems at once, each with its path, line and the nearest known key."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from trtspec.errors import Problem, SpecError
from trtspec.spec.migrations import migration_hint
from trtspec.spec.model import ModelSource, Spec
from trtspec.spec.names import Arm, Role

__all__ = ["SpecFile", "load_spec", "parse_spec", "spec_json_schema"]

_INIT_HINT = "trtspec init"
_MAX_DEPTH = 20
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class SpecFile:
    """A validated spec together with the folder that its relative paths and its results belong to."""

    path: Path
    spec: Spec

    @property
    def root(self) -> Path:
        """The folder of the spec file, absolute."""
        return self.path.resolve().parent

    def source(self, role: Role) -> ModelSource:
        """The checkpoint section behind a role (baseline and target share one)."""
        return self.spec.draft if role == "draft" else self.spec.target

    def checkpoint(self, role: Role) -> Path:
        """Absolute checkpoint folder of a role; SpecError when only an engine is given."""
        given = self.source(role).checkpoint
        if given is None:
            section = "draft" if role == "draft" else "target"
            message = "is needed for this step (configuration and tokenizer; its weights may be missing)"
            raise SpecError(str(self.path), [Problem(f"{section}.checkpoint", message)])
        return _without_dots(self.root / given.expanduser())

    def given_engine(self, role: Role) -> Path | None:
        """Absolute folder of an engine that the spec names instead of having it built; None: it is built."""
        spec = self.spec
        section = spec.baseline if role == "baseline" else self.source(role)
        if section is None or section.engine is None:
            return None
        return _without_dots(self.root / section.engine.expanduser())

    def engines(self, role: Role) -> Path:
        """Folder that holds the engines of a role, one sub-folder a key."""
        return self.root / "engines" / self.spec.name / role

    def repository(self, arm: Arm) -> Path:
        """Triton model repository of an arm."""
        return self.root / "model_repo" / self.spec.name / arm

    @property
    def runs(self) -> Path:
        """Folder of the load-test runs."""
        return self.root / "runs" / self.spec.name


def _without_dots(path: Path) -> Path:
    """`path` without `..`, where that is the same place (behind a symbolic link it is not)."""
    plain = Path(os.path.normpath(path))
    try:
        same = plain.samefile(path)
    except OSError:  # one of them is not there
        same = not path.exists()
    return plain if same else path


def spec_json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the spec file, for editors; a text may be written as a number, as it is read."""
    schema = Spec.model_json_schema()
    for _, model, name in _text_fields(Spec, ""):
        owner = schema if model is Spec else schema["$defs"][model.__name__]
        field = owner["properties"][name]
        for choice in field.get("anyOf", [field]):
            if choice["type"] == "string":
                choice["type"] = ["string", "number"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "trtspec.yaml", **schema}


def load_spec(path: Path) -> SpecFile:
    """Read and validate `path`; SpecError lists every problem."""
    where = str(path)
    try:
        with path.open("rb") as stream:  # a pipe has no size to ask for, a device no end
            data = stream.read(_MOST_BYTES + 1)
        text = data.decode("utf-8")
    except FileNotFoundError:
        raise SpecError(where, [Problem("", "no such file")], fix=_INIT_HINT) from None
    except IsADirectoryError:
        problem = Problem("", "is a folder, not a spec file")
        raise SpecError(where, [problem], fix=f"trtspec check {path}/trtspec.yaml") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(where, [Problem("", f"cannot be read: {error}")]) from None
    if len(data) > _MOST_BYTES:
        raise SpecError(where, [Problem("", f"is larger than any spec ({_MOST_BYTES >> 20} MiB)")], fix=_INIT_HINT)
    if not _is_text(path.resolve().parent):
        problem = Problem("", "lies in a folder whose name is no UTF-8, which tokenizers and Triton cannot open")
        raise SpecError(where, [problem], fix="rename the folder")
    return SpecFile(path, parse_spec(text, where))


def _is_text(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def parse_spec(text: str, where: str = "<spec>") -> Spec:
    """Validate the YAML `text`; SpecError lists every problem."""
    data, lines = _parse_yaml(text, where)
    try:
        return Spec.model_validate(data)
    except ValidationError as error:
        problems = _unique(problem for item in error.errors() for problem in _problems(item, lines, data))
        raise SpecError(where, problems, fix="trtspec schema shows every field") from None


def _parse_yaml(text: str, where: str) -> tuple[Any, dict[str, int]]:
    try:
        _refuse_bombs(text, where)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if not isinstance(node, yaml.MappingNode):
            raise SpecError(where, [Problem("", "a mapping of keys to values is expected")], fix=_INIT_HINT)
        lines: dict[str, int] = {}
        duplicates = _index_lines(node, "", lines)
        _numbers_to_text(node, "")
        data = json.loads(json.dumps(yaml.SafeLoader("").construct_document(node), default=str))
    except yaml.YAMLError as error:
        raise SpecError(where, [Problem("", _yaml_message(error))]) from None
    except (TypeError, ValueError) as error:  # a key that is no text, a date that no calendar has, too many digits
        raise SpecError(where, [Problem("", f"holds a value that cannot be read: {error}")]) from None
    if duplicates:
        raise SpecError(where, duplicates)
    return data, lines


def _numbers_to_text(node: yaml.MappingNode, path: str) -> None:
    """Mark numbers as text where the spec wants text, as they are typed: `image: 25.10` is not 25.1."""
    for key, value in node.value:
        child = f"{path}.{key.value}" if path else str(key.value)
        if isinstance(value, yaml.MappingNode):
            _numbers_to_text(value, child)
        elif value.tag in _NUMBERS and child in _text_keys():
            value.tag = "tag:yaml.org,2002:str"


_NUMBERS = ("tag:yaml.org,2002:float", "tag:yaml.org,2002:int")


@cache
def _text_keys() -> frozenset[str]:
    """Dotted names of the spec's fields that are text."""
    return frozenset(key for key, _, _ in _text_fields(Spec, ""))


def _text_fields(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, type[BaseModel], str]]:
    """Dotted name, section and name there of each field that is text."""
    for name, field in model.model_fields.items():
        kinds = get_args(field.annotation) if isinstance(field.annotation, UnionType) else (field.annotation,)
        if str in kinds:
            yield f"{prefix}{name}", model, name
        for section in kinds:
            if isinstance(section, type) and issubclass(section, BaseModel):
                yield from _text_fields(section, f"{prefix}{name}.")


def _refuse_bombs(text: str, where: str) -> None:
    """SpecError for what a spec never needs: deep nesting, and aliases, which a few lines expand to gigabytes."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent):
            raise SpecError(where, [Problem("", f"aliases (*{event.anchor}) are not read, line {line}")])
        if depth > _MAX_DEPTH:
            raise SpecError(where, [Problem("", f"is nested too deeply, line {line}")])


def _yaml_message(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    at = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
    return f"not valid YAML: {getattr(error, 'problem', None) or error}{at}"


def _index_lines(node: yaml.Node, path: str, lines: dict[str, int]) -> list[Problem]:
    """Fill `lines` with dotted path → line number; return a problem for each key given twice."""
    duplicates: list[Problem] = []
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            child = f"{path}.{key.value}" if path else str(key.value)
            if child in lines:
                duplicates.append(Problem(child, f"given twice (lines {lines[child]} and {key.start_mark.line + 1})"))
            lines[child] = key.start_mark.line + 1
            duplicates += _index_lines(value, child, lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            lines[f"{path}.{index}"] = value.start_mark.line + 1
            duplicates += _index_lines(value, f"{path}.{index}", lines)
    return duplicates


def _problems(item: Any, lines: dict[str, int], data: Any) -> list[Problem]:
    path = ".".join(str(part) for part in item["loc"])
    if item["type"] == "value_error":
        # raised by the spec's own validators: one "path: message" a line
        parts = [line.partition(": ") for line in str(item["ctx"]["error"]).splitlines()]
        return [_located(".".join(filter(None, (path, at))), message, lines) for at, _, message in parts]
    if item["type"] == "extra_forbidden":
        hint = migration_hint(item["loc"], data) or _nearest(item["loc"])
        return [_located(path, "unknown key", lines, hint)]
    if item["type"] == "missing":
        return [Problem(path, "is required")]
    given = item.get("input")
    if item["type"] == "model_type":
        return [_located(path, _no_section(given), lines)]
    shown = f" (given: {given!r})" if isinstance(given, (str, int, float, bool)) or given is None else ""
    return [_located(path, item["msg"][:1].lower() + item["msg"][1:] + shown, lines)]


def _no_section(given: Any) -> str:
    if given is None:
        return "is an empty section: give it a key, or remove its line"
    shown = f" (given: {given!r})" if isinstance(given, (str, int, float)) else ""
    return f"is a section of keys, {{key: value}}{shown}"


def _located(path: str, message: str, lines: dict[str, int], hint: str | None = None) -> Problem:
    line = lines.get(path)
    return Problem(path, f"{message}, line {line}" if line else message, hint)


def _nearest(loc: tuple[str | int, ...]) -> str | None:
    known = _known_keys(loc[:-1])
    close = difflib.get_close_matches(str(loc[-1]), known, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known here: {', '.join(known)}" if known else None


def _known_keys(parents: tuple[str | int, ...]) -> list[str]:
    model: type[BaseModel] = Spec
    for part in parents:
        field = model.model_fields.get(str(part))
        candidates = [] if field is None else [field.annotation, *getattr(field.annotation, "__args__", ())]
        inner = next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), None)
        if inner is None:
            return []
        model = inner
    return list(model.model_fields)


def _unique(problems: Any) -> list[Problem]:
    return list(dict.fromkeys(problems))
