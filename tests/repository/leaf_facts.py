"""The contract of NVIDIA's C++ model, checked on a parsed config.pbtxt, from tests/facts alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["leaf_facts", "tensor_rows", "violations"]

_FACTS = Path(__file__).parent.parent / "facts"
_BOOLEANS = {"True", "true", "TRUE", "1", "False", "false", "FALSE", "0"}
_TYPES = {
    "logits": {"FP32", "FP16"},
    "prompt_embedding_table": {"FP16", "BF16", "FP32"},
    "encoder_input_features": {"FP16", "BF16", "FP32"},
}


@cache
def leaf_facts(version: str) -> dict[str, Any]:
    """The facts of a release (major.minor)."""
    found: dict[str, Any] = json.loads((_FACTS / f"triton_model_{version}.json").read_text())
    assert found["version"] == version
    return found


def tensor_rows(tensors: Any) -> list[list[Any]]:
    """The tensors of a parsed configuration in the form of the facts."""
    from tritonclient.grpc.model_config_pb2 import DataType

    rows = []
    for tensor in tensors:
        flags = []
        if getattr(tensor, "optional", False):
            flags.append("optional")
        if getattr(tensor, "allow_ragged_batch", False):
            flags.append("ragged")
        if tensor.HasField("reshape") and list(tensor.reshape.shape) == []:
            flags.append("scalar")
        type_ = DataType.Name(tensor.data_type).removeprefix("TYPE_")
        rows.append([tensor.name, type_, list(tensor.dims), " ".join(flags)])
    return rows


def violations(config: Any, version: str) -> list[str]:
    """Everything in which a parsed `tensorrt_llm` differs from what the release's model has."""
    facts = leaf_facts(version)
    return [
        *_tensor_violations(tensor_rows(config.input), facts["inputs"]),
        *_tensor_violations(tensor_rows(config.output), [[*row, ""] for row in facts["outputs"]]),
        *_parameter_violations({key: item.string_value for key, item in config.parameters.items()}, facts),
    ]


def _tensor_violations(found: list[list[Any]], known: list[list[Any]]) -> Iterator[str]:
    if [row[0] for row in found] != [row[0] for row in known]:
        yield f"names {[row[0] for row in found]}, the model has {[row[0] for row in known]}"
        return
    for (name, type_, dims, flags), (_, known_type, known_dims, known_flags) in zip(found, known, strict=True):
        if type_ not in _TYPES.get(known_type, {known_type}) or (dims, flags) != (known_dims, known_flags):
            yield f"{name} is {type_} {dims} {flags}, the model has {known_type} {known_dims} {known_flags}"


def _parameter_violations(found: Mapping[str, str], facts: Mapping[str, Any]) -> Iterator[str]:
    known: dict[str, dict[str, Any]] = facts["parameters"]
    yield from (f"{key} is not read by the model" for key in found if key not in known)
    for key, row in known.items():
        if key not in found:
            if row["template"] or row["must_exist"]:
                yield f"{key} is missing"
            continue
        value = found[key]
        if value and not _fits(value, row):
            yield f"{key} = {value!r} is no {row['kind']}"
        if not value and row["default"]:
            yield f"{key} is empty, though the model has the default {row['default']}"


def _fits(value: str, row: Mapping[str, Any]) -> bool:
    if "$" in value:
        return False
    kind = row["kind"]
    if kind == "bool":
        return value in _BOOLEANS
    if kind in ("enum", "const"):
        return value in row["choices"]
    if kind == "int":
        return value.isdecimal()
    if kind == "float":
        return 0 <= float(value) <= 1
    if kind == "csv int":
        return all(part.isdecimal() for part in value.split(","))
    return True
