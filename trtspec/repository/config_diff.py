"""What differs between two states of a repository in terms of models: parameters, tensors, settings, files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from trtspec.repository.placed import Placed
from trtspec.repository.sync import Changes

__all__ = ["ConfigChange", "config_changes"]

What = Literal["model", "parameter", "input", "output", "setting", "files", "config.pbtxt"]
_CONFIG = "config.pbtxt"


@dataclass(frozen=True)
class ConfigChange:
    """One difference. before, after: None where it was, or will be, not there."""

    model: str
    what: What
    name: str
    before: str | None
    after: str | None

    def to_json(self) -> dict[str, Any]:
        """The change as `repo --diff --output json` prints it."""
        return {name: getattr(self, name) for name in ("model", "what", "name", "before", "after")}


def config_changes(change: Changes) -> tuple[ConfigChange, ...]:
    """What `change` will do to each model, by model; config.pbtxt first, then the number of other files."""
    models = sorted({PurePosixPath(name).parts[0] for name in (*change.written, *change.removed)})
    return tuple(found for model in models for found in _model_changes(change, model))


def _model_changes(change: Changes, model: str) -> Iterator[ConfigChange]:
    path = f"{model}/{_CONFIG}"
    wanted = change.wanted.get(path)
    new = None if wanted is None or isinstance(wanted, Placed) else wanted
    old = _bytes_at(change, path)
    if old is None or new is None:
        state = "there" if old is not None else None, "there" if new is not None else None
        if state[0] != state[1]:
            yield ConfigChange(model, "model", model, *state)
    elif old != new:
        yield from _between(model, old, new)
    counts = Counter(
        kind
        for kind, names in (("written", change.written), ("removed", change.removed))
        for name in names
        if name.startswith(f"{model}/") and name != path
    )
    if counts:
        after = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        yield ConfigChange(model, "files", "code and other files", None, after)


def _bytes_at(change: Changes, name: str) -> bytes | None:
    try:
        return (change.folder / name).read_bytes()
    except OSError:
        return None


def _between(model: str, old: bytes, new: bytes) -> Iterator[ConfigChange]:
    before, after = _parse(old), _parse(new)
    if before is None or after is None:
        yield ConfigChange(model, "config.pbtxt", "text", "cannot be parsed" if before is None else "read", "read")
        return
    sides: tuple[tuple[What, Mapping[str, str], Mapping[str, str]], ...] = (
        ("setting", _settings(before), _settings(after)),
        ("parameter", _parameters(before), _parameters(after)),
        ("input", _tensors(before.input), _tensors(after.input)),
        ("output", _tensors(before.output), _tensors(after.output)),
    )
    for what, one, other in sides:
        for name in dict.fromkeys((*one, *other)):
            if one.get(name) != other.get(name) and not _is_filled(name, one, other):
                yield ConfigChange(model, what, name, one.get(name), other.get(name))


def _is_filled(name: str, one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """True for an empty section that the other side has with something in it: that is said for what is in it."""
    empty, full = (one, other) if one.get(name) == "{}" else (other, one)
    return empty.get(name) == "{}" and any(key.startswith(f"{name}.") for key in full)


def _parse(data: bytes) -> Any | None:
    from google.protobuf import text_format
    from tritonclient.grpc.model_config_pb2 import ModelConfig

    try:
        return text_format.Parse(data.decode(), ModelConfig())
    except (ValueError, text_format.ParseError):
        return None


def _parameters(config: Any) -> dict[str, str]:
    return {key: value.string_value for key, value in sorted(config.parameters.items())}


def _tensors(tensors: Any) -> dict[str, str]:
    from tritonclient.grpc.model_config_pb2 import DataType

    return {item.name: _tensor(DataType.Name(item.data_type), item) for item in tensors}


def _tensor(type_: str, item: Any) -> str:
    words = [type_, f"[{', '.join(str(size) for size in item.dims)}]"]
    words += ["optional"] if getattr(item, "optional", False) else []
    words += ["ragged"] if getattr(item, "allow_ragged_batch", False) else []
    words += [f"reshape [{', '.join(str(size) for size in item.reshape.shape)}]"] if item.HasField("reshape") else []
    return " ".join(words)


def _settings(config: Any) -> dict[str, str]:
    """Everything but parameters and tensors, flattened: `dynamic_batching.preferred_batch_size` → its value."""
    from google.protobuf.json_format import MessageToDict

    rest = type(config)()
    rest.CopyFrom(config)
    for side in ("input", "output", "parameters"):
        rest.ClearField(side)
    return dict(_flat("", MessageToDict(rest, preserving_proto_field_name=True)))


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else key, inner)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for number, inner in enumerate(value):
            yield from _flat(f"{prefix}[{number}]", inner)
    else:
        yield prefix, ", ".join(str(item) for item in value) if isinstance(value, list) else str(value)
