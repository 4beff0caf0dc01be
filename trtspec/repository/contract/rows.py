"""One tensor and one parameter of the C++ model, with the releases that have it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from trtspec.repository.tensors import Tensor

__all__ = [
    "ENCODER_FEATURES",
    "FALSE",
    "LOGITS",
    "PROMPT_TABLE",
    "TRUE",
    "TYPE_CHOICES",
    "Kind",
    "LeafParameter",
    "LeafTensor",
    "Release",
]

Release = tuple[int, int]  # major, minor
Kind = Literal["int", "float", "bool", "text", "path", "choice", "numbers", "tree"]

# types that the engine decides: what stands for them in the tables, and the choices that load
LOGITS, PROMPT_TABLE, ENCODER_FEATURES = "logits", "prompt table", "encoder features"
_HALVES = ("TYPE_FP16", "TYPE_BF16", "TYPE_FP32")
TYPE_CHOICES: Mapping[str, tuple[str, ...]] = {
    LOGITS: ("TYPE_FP32", "TYPE_FP16"),
    PROMPT_TABLE: _HALVES,
    ENCODER_FEATURES: _HALVES,
}

# the only spellings that the backend reads as a boolean; any other counts as "not given"
TRUE, FALSE = ("true", "True", "TRUE", "1"), ("false", "False", "FALSE", "0")


@dataclass(frozen=True)
class _Dated:
    """First and last release that has it; None: since before 0.19, and to the end."""

    since: Release | None = None
    until: Release | None = None

    def is_in(self, release: Release) -> bool:
        """Whether a release has it."""
        return (self.since is None or self.since <= release) and (self.until is None or release <= self.until)


@dataclass(frozen=True, kw_only=True)
class LeafTensor(_Dated):
    """A tensor; its type may be one of `TYPE_CHOICES`, to be filled in."""

    tensor: Tensor


@dataclass(frozen=True, kw_only=True)
class LeafParameter(_Dated):
    """A parameter of config.pbtxt; all are `string_value`s.

    default: what the backend takes when nothing is given, as text; None: no value, the feature is off or the engine
    decides. must_exist: without the key the model does not load; `needs_value`: nor with an empty one.
    low, high: limits of a number. in_template: NVIDIA's template has it.
    """

    key: str
    kind: Kind
    default: str | None = None
    choices: tuple[str, ...] = ()
    must_exist: bool = False
    needs_value: bool = False
    low: float | None = None
    high: float | None = None
    in_template: bool = True

    def problem(self, value: str) -> str | None:
        """Why the backend does not read `value`, e.g. "'yes' is no boolean"; None when it does."""
        if value == "":
            return "is empty" if self.needs_value else None
        if "${" in value:
            return f"{value!r} is a placeholder that nobody filled in"
        return _READERS[self.kind](self, value)


def _bool(_parameter: LeafParameter, value: str) -> str | None:
    read = value in (*TRUE, *FALSE)
    return None if read else f"{value!r} is no boolean: the backend reads {', '.join((*TRUE, *FALSE))} only"


def _choice(parameter: LeafParameter, value: str) -> str | None:
    return None if value in parameter.choices else f"{value!r} is none of {', '.join(parameter.choices)}"


def _number(parameter: LeafParameter, value: str) -> str | None:
    whole = parameter.kind == "int"
    try:
        number = int(value) if whole else float(value)
    except ValueError:
        return f"{value!r} is no {'whole ' if whole else ''}number"
    if not math.isfinite(number):
        return f"{value!r} is no finite number"
    if parameter.low is not None and number < parameter.low:
        return f"{value} is less than {parameter.low:g}"
    if parameter.high is not None and number > parameter.high:
        return f"{value} is more than {parameter.high:g}"
    return None


def _numbers(_parameter: LeafParameter, value: str) -> str | None:
    """Whole numbers separated by commas; a semicolon separates instances of the model."""
    parts = [part for instance in value.split(";") for part in instance.split(",")]
    wrong = [part for part in parts if not (part.strip().isascii() and part.strip().isdecimal())]
    return f"{value!r} is no list of whole numbers" if wrong else None


def _text(_parameter: LeafParameter, _value: str) -> str | None:
    return None


def _tree(_parameter: LeafParameter, value: str) -> str | None:
    return None if value.startswith("{") and value.endswith("}") else f"{value!r} is no tree in braces"


_READERS = {
    "int": _number,
    "float": _number,
    "bool": _bool,
    "text": _text,
    "path": _text,
    "choice": _choice,
    "numbers": _numbers,
    "tree": _tree,
}
