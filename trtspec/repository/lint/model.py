"""One model of a repository as its config.pbtxt declares it, and which part it plays."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

__all__ = ["CONFIG_FILE", "CPP_BACKEND", "Declared", "Kind", "Model", "ParseProblem", "filled"]

# leaf: runs an engine; frontend: ours; bls: NVIDIA's stock BLS or one made of it
Kind = Literal["leaf", "frontend", "bls", "ensemble", "preprocessing", "postprocessing", "other"]
CONFIG_FILE = "config.pbtxt"
CPP_BACKEND = "tensorrtllm"
_PYTHON = "python"
_OF_A_BLS = {"tensorrt_llm_model_name", "tensorrt_llm_draft_model_name", "accumulate_tokens"}
_OURS = "max_draft_length"  # a parameter that only our frontend has


@dataclass(frozen=True)
class ParseProblem:
    """Why config.pbtxt is no ModelConfig, at which line (1 = the first; None: not known)."""

    message: str
    line: int | None


@dataclass(frozen=True)
class Declared:
    """A tensor as config.pbtxt declares it."""

    name: str
    type: str
    dims: tuple[int, ...]
    optional: bool = False

    def __str__(self) -> str:
        return f"{self.type} [{', '.join(str(size) for size in self.dims)}]"


@dataclass(frozen=True)
class Model:
    """A folder of the repository; config: None when there is none or it cannot be parsed.

    versions: version folders, ascending, each with the names in it.
    """

    folder: Path
    text: str | None
    config: Any
    problem: ParseProblem | None
    versions: Mapping[int, frozenset[str]]

    @property
    def name(self) -> str:
        """What Triton calls it: the name of its folder."""
        return self.folder.name

    @property
    def backend(self) -> str:
        """`python`, `tensorrtllm`, … or for ensembles `ensemble`."""
        return str(self.config.backend or self.config.platform) if self.config is not None else ""

    @cached_property
    def parameters(self) -> dict[str, str]:
        """Parameters of config.pbtxt."""
        if self.config is None:
            return {}
        return {key: value.string_value for key, value in self.config.parameters.items()}

    @cached_property
    def inputs(self) -> dict[str, Declared]:
        """Input tensors by name."""
        return {tensor.name: tensor for tensor in self._declared("input")}

    @cached_property
    def outputs(self) -> dict[str, Declared]:
        """Output tensors by name."""
        return {tensor.name: tensor for tensor in self._declared("output")}

    def _declared(self, side: str) -> list[Declared]:
        if self.config is None:
            return []
        names = type(self.config).DESCRIPTOR.fields_by_name[side].message_type.fields_by_name["data_type"].enum_type
        return [
            Declared(
                item.name,
                names.values_by_number[item.data_type].name,
                tuple(item.dims),
                side == "input" and item.optional,
            )
            for item in getattr(self.config, side)
        ]

    @property
    def decoupled(self) -> bool:
        """Whether it may answer a request with several responses."""
        return self.config is not None and bool(self.config.model_transaction_policy.decoupled)

    @property
    def instances(self) -> int:
        """Instances that Triton starts: the sum of the groups, 1 where no count is given."""
        groups = self.config.instance_group if self.config is not None else ()
        return sum(group.count or 1 for group in groups) or 1

    @cached_property
    def kind(self) -> Kind:
        """Which part it plays, from what its configuration says."""
        if self.backend == CPP_BACKEND or ("gpt_model_path" in self.parameters and "input_ids" in self.inputs):
            return "leaf"
        if self.backend == "ensemble":
            return "ensemble"
        if self.backend != _PYTHON:
            return "other"
        if "text_input" in self.inputs and not _OF_A_BLS.isdisjoint(self.parameters):
            return "frontend" if _OURS in self.parameters else "bls"
        return "preprocessing" if "QUERY" in self.inputs else "postprocessing" if "OUTPUT" in self.outputs else "other"

    @property
    def cpp(self) -> bool:
        """True for NVIDIA's C++ model, which reads a TensorRT engine."""
        return self.backend == CPP_BACKEND

    def value(self, key: str) -> str | None:
        """A parameter's value; None when it is missing, empty or a placeholder."""
        return filled(self.parameters.get(key))

    def flag(self, key: str, *, default: bool = False) -> bool:
        """A boolean parameter as the C++ backend reads it."""
        value = self.value(key)
        return value in ("true", "True", "TRUE", "1") if value is not None else default

    def number(self, key: str) -> float | None:
        """A number parameter; None when it is not given, or no number."""
        try:
            number = float(self.value(key) or "")
        except ValueError:
            return None
        return number if math.isfinite(number) else None

    def groups(self, key: str) -> tuple[tuple[int, ...], ...]:
        """A parameter of numbers by instance of the model (`0,1;2,3`); empty when not given or not readable."""
        value = self.value(key)
        try:
            return tuple(tuple(int(part) for part in group.split(",")) for group in value.split(";")) if value else ()
        except ValueError:
            return ()

    def line_of(self, text: str) -> int | None:
        """The first line of config.pbtxt with `text` in quotes."""
        for number, line in enumerate((self.text or "").splitlines(), 1):
            if re.search(rf"[\"']{re.escape(text)}[\"']", line):
                return number
        return None

    def place(self, line: int | None = None) -> str:
        """`tensorrt_llm/config.pbtxt:12`."""
        return f"{self.name}/{CONFIG_FILE}{f':{line}' if line else ''}"


def filled(value: str | None) -> str | None:
    """`value`, or None when it is empty or a placeholder that nobody filled in."""
    return value if value and "${" not in value else None
